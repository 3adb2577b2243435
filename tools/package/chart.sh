#!/usr/bin/env bash
# tools/package/chart.sh CHART.tgz PROGRAM: the packed chart judged by helm, its objects by Kubernetes' schemas, and the file
# that its pod reads by the program itself, with few values and with many. helm is taken where it is; else Go builds it into
# build/package/bin (some minutes, once); without either this says that nothing was judged.
set -euo pipefail
cd "$(dirname "$0")/../.."
chart=$1 program=$2
helm_version=v3.16.4
kubernetes=1.32
work=$package_root/chart
say() { printf 'package: %s\n' "$*"; }

helm=$(command -v helm || true)
if [ -z "$helm" ] && [ ! -x "$package_root/bin/helm" ]; then
  if ! command -v go >/dev/null; then
    say "the chart was packed and not judged: neither helm nor go is here"
    exit 0
  fi
  say "building helm $helm_version, which judges the chart (some minutes, once)"
  GOBIN=$package_root/bin GOFLAGS=-p=${JOBS:-2} nice -n 10 go install "helm.sh/helm/v3/cmd/helm@$helm_version"
fi
helm=${helm:-$package_root/bin/helm}

few=(--set model=org/name)
many=("${few[@]}" --set replicas=2,cache.persistent=true,cache.storageClassName=fast,apiKeysSecret=keys,hubTokenSecret=hub,kvEvents.enabled=true
  --set config.max-running-requests=8 --set 'extraArgs={--no-log-requests}' --set 'nodeSelector.kind=large,podLabels.team=a,imagePullSecrets[0].name=pull')

# judged NAME VALUES...: ServiceMonitor is the operator's own kind, so it is left to the template's reader.
judged() {
  local name=$1 objects=$work/$1.yaml
  shift
  "$helm" template release "$chart" --kube-version "$kubernetes.0" "$@" >"$objects"
  "$package_root/venv/bin/kubernetes-validate" --strict -k "$kubernetes" "$objects" >"$work/$name.log" 2>&1 || { cat "$work/$name.log" >&2; exit 1; }
  "$package_root/venv/bin/python" - "$objects" >"$work/$name-config.yaml" <<'PYTHON'
import sys
import yaml
print(next(one["data"]["espalier.yaml"] for one in yaml.safe_load_all(open(sys.argv[1])) if one["kind"] == "ConfigMap"), end="")
PYTHON
  "$program" serve --config "$work/$name-config.yaml" --print-config >"$work/$name-effective.yaml"
  grep -q '^port: 30000' "$work/$name-effective.yaml" || { say "the pod's configuration does not name port 30000"; exit 1; }
}

"$helm" lint --strict "${few[@]}" "$chart" >"$work/lint.log" 2>&1 || { cat "$work/lint.log" >&2; exit 1; }
judged few "${few[@]}"
judged many "${many[@]}"
if "$helm" template release "$chart" --kube-version "$kubernetes.0" >"$work/none.log" 2>&1; then
  say "the chart takes no model for one"
  exit 1
fi
say "chart: $("$helm" version --short | sed 's/+.*//') lints it; objects of $kubernetes and the pod's configuration are valid with few and with many values"

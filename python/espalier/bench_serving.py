"""``python -m espalier.bench_serving --backend sglang ...``: measures a server, with SGLang's flags.

It becomes ``espalier bench serving``.
"""

from __future__ import annotations

from espalier.launch_server import main

if __name__ == "__main__":
    main(["bench", "serving"])

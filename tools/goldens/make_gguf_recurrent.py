"""GGUF files of the recurrent goldens, with the names and weights as llama.cpp's converter changes them, and what of their goldens
the test reads. Needs numpy and gguf.

    python make_gguf_recurrent.py GOLDENS/models OUT    # OUT/<architecture>.gguf and .json
"""
import json, struct, sys, re, os
import numpy as np, gguf
from gguf import GGMLQuantizationType as T
SRC, OUT = (sys.argv[1].rstrip('/') + '/', sys.argv[2].rstrip('/')) if __name__ == '__main__' else ('', '')

def load(n):
    raw = open(SRC + n + '/model.safetensors', 'rb').read()
    l = struct.unpack('<Q', raw[:8])[0]
    h = json.loads(raw[8:8 + l])
    out = {}
    for k, v in h.items():
        if k == '__metadata__':
            continue
        a, b = v['data_offsets']
        buf = raw[8 + l + a:8 + l + b]
        if v['dtype'] == 'BF16':
            x = (np.frombuffer(buf, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            x = np.frombuffer(buf, np.float32)
        out[k] = x.reshape(v['shape']).copy()
    return out

def expected_logits(n, i):
    raw = open(SRC + n + '/logits.safetensors', 'rb').read()
    l = struct.unpack('<Q', raw[:8])[0]
    h = json.loads(raw[8:8 + l])
    v = h[f'p{i}.logits']
    a, b = v['data_offsets']
    return np.frombuffer(raw[8 + l + a:8 + l + b], np.float32).reshape(v['shape'])

def reorder(x, dim, k, r, d):
    s = list(x.shape)
    y = x.reshape(s[:dim] + [k, r, d] + s[dim + 1:])
    p = list(range(y.ndim))
    p[dim], p[dim + 1] = (p[dim + 1], p[dim])
    return np.ascontiguousarray(y.transpose(p)).reshape(s)

def permute(w, h):
    return w.reshape(h, 2, w.shape[0] // h // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)
COMMON = {'input_layernorm': 'attn_norm', 'self_attn.q_proj': 'attn_q', 'self_attn.k_proj': 'attn_k', 'self_attn.v_proj': 'attn_v', 'self_attn.o_proj': 'attn_output', 'self_attn.q_norm': 'attn_q_norm', 'self_attn.k_norm': 'attn_k_norm', 'post_attention_layernorm': 'ffn_norm', 'mlp.gate_proj': 'ffn_gate', 'mlp.up_proj': 'ffn_up', 'mlp.down_proj': 'ffn_down', 'mlp.gate': 'ffn_gate_inp', 'mlp.shared_expert.gate_proj': 'ffn_gate_shexp', 'mlp.shared_expert.up_proj': 'ffn_up_shexp', 'mlp.shared_expert.down_proj': 'ffn_down_shexp', 'mlp.shared_expert_gate': 'ffn_gate_inp_shexp', 'self_attn.kv_a_proj_with_mqa': 'attn_kv_a_mqa', 'self_attn.kv_a_layernorm': 'attn_kv_a_norm'}
TOP = {'model.embed_tokens.weight': 'token_embd.weight', 'model.norm.weight': 'output_norm.weight', 'lm_head.weight': 'output.weight', 'backbone.embeddings.weight': 'token_embd.weight', 'backbone.norm_f.weight': 'output_norm.weight', 'model.final_layernorm.weight': 'output_norm.weight', 'model.embedding_norm.weight': 'token_embd_norm.weight'}

def mamba_names(stem):
    return {stem + '.in_proj': 'ssm_in', stem + '.conv1d': 'ssm_conv1d', stem + '.x_proj': 'ssm_x', stem + '.dt_proj': 'ssm_dt', stem + '.norm': 'ssm_norm', stem + '.out_proj': 'ssm_out', stem + '.dt_layernorm': 'ssm_dt_norm', stem + '.b_layernorm': 'ssm_b_norm', stem + '.c_layernorm': 'ssm_c_norm'}

def convert(n, arch, names, keys, edit, heads=0, kv=0):
    if not OUT:
        return  # another script uses what is here
    c = json.load(open(SRC + n + '/config.json'))
    t = load(n)
    out = {}
    exps = {}
    for k, x in t.items():
        if k in TOP:
            out[TOP[k]] = x + 1 if k == 'model.norm.weight' and arch.startswith('qwen3') else x
            continue
        m = re.match('(?:model|backbone)\\.layers\\.(\\d+)\\.(.*)', k)
        L, rest = (m[1], m[2])
        e = re.match('(.*experts)\\.(\\d+)\\.(\\w+)\\.weight', rest)
        if e:
            w = {'gate_proj': 'gate', 'up_proj': 'up', 'down_proj': 'down', 'w1': 'gate', 'w2': 'down', 'w3': 'up'}[e[3]]
            exps.setdefault((L, w), {})[int(e[2])] = x
            continue
        for name, y in edit(rest, x, c):
            if name is None:
                stem, _, end = rest.rpartition('.')
                name = (names.get(stem) or COMMON.get(stem)) + '.' + end
            out[f'blk.{L}.{name}'] = y
    for (L, w), d in exps.items():
        out[f'blk.{L}.ffn_{w}_exps.weight'] = np.stack([d[i] for i in range(len(d))])
    if n.startswith('n26-') and c.get('tie_word_embeddings'):
        out.pop('output.weight', None)
    os.makedirs(OUT, exist_ok=True)
    w = gguf.GGUFWriter(OUT + '/' + arch + '.gguf', arch)
    toks = json.load(open(SRC + n + '/tokenizer.json'))['model']['vocab']
    w.add_vocab_size(c['vocab_size'])
    w.add_block_count(c.get('num_hidden_layers') or len(c['layers_block_type']))
    w.add_embedding_length(c['hidden_size'])
    w.add_context_length(512)
    w.add_layer_norm_rms_eps(c.get('rms_norm_eps') or c.get('layer_norm_epsilon') or c.get('norm_eps'))
    for k, v in keys(c).items():
        key = f'{arch}.{k}'
        if isinstance(v, bool):
            w.add_bool(key, v)
        elif isinstance(v, int):
            w.add_uint32(key, v)
        elif isinstance(v, float):
            w.add_float32(key, v)
        elif isinstance(v, list):
            w.add_array(key, v)
    for k, x in out.items():
        vec = x.ndim < 2 or (any((s in k for s in ('norm', 'ssm_conv1d', 'shortconv.conv', 'ssm_a', 'ssm_d', 'ffn_gate_inp'))) and 'ssm_dt.weight' not in k)
        if vec:
            w.add_tensor(k, np.ascontiguousarray(x.astype(np.float32)))
        elif arch == 'falcon-h1':
            w.add_tensor(k, np.ascontiguousarray(x.astype(np.float32)))
        else:
            w.add_tensor(k, gguf.quants.quantize(np.ascontiguousarray(x.astype(np.float32)), T.BF16), raw_dtype=T.BF16)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    g = json.load(open(SRC + n + '/golden.json'))
    json.dump({'from': n, 'prompts': [{k: p[k] for k in ('tokens', 'greedy')} for p in g['prompts'][1:3]], 'logits': [[round(float(v), 5) for v in expected_logits(n, i)[-1]] for i in (1, 2)], 'logit_std': g['logit_std']}, open(OUT + '/' + arch + '.json', 'w'))
    print(arch, len(out), os.path.getsize(OUT + '/' + arch + '.gguf'))

def attention_keys(c, i=None):
    return {'attention.head_count': c['num_attention_heads'], 'attention.head_count_kv': c['num_key_value_heads'], 'rope.freq_base': float(c['rope_parameters']['rope_theta'])} if 'rope_parameters' in c else {'attention.head_count': c['num_attention_heads'], 'attention.head_count_kv': c['num_key_value_heads']}

def head_keys(c):
    return {'attention.key_length': c['head_dim'], 'attention.value_length': c['head_dim']}
QWEN = {**{f'linear_attn.{a}': b for a, b in {'in_proj_qkv': 'attn_qkv', 'in_proj_z': 'attn_gate', 'in_proj_ba': 'ssm_ba', 'in_proj_b': 'ssm_beta', 'in_proj_a': 'ssm_alpha', 'conv1d': 'ssm_conv1d', 'norm': 'ssm_norm', 'out_proj': 'ssm_out'}.items()}, 'post_attention_layernorm': 'post_attention_norm'}

def of_qwen(reord):

    def f(r, x, c):
        K, V, dk, dv = (c['linear_num_key_heads'], c['linear_num_value_heads'], c['linear_key_head_dim'], c['linear_value_head_dim'])
        R = V // K
        if reord and 'linear_attn.' in r:
            q = 2 * dk * K
            if 'in_proj_qkv' in r:
                x = np.concatenate([x[:q], reorder(x[q:], 0, K, R, dv)])
            elif 'in_proj_z' in r:
                x = reorder(x, 0, K, R, dv)
            elif 'in_proj_a' in r or 'in_proj_b' in r:
                x = reorder(x, 0, K, R, 1)
            elif 'A_log' in r or 'dt_bias' in r:
                x = reorder(x[:, None], 0, K, R, 1)[:, 0]
            elif 'conv1d' in r:
                x = x.squeeze(1)
                x = np.concatenate([x[:q], reorder(x[q:], 0, K, R, dv)])
            elif 'out_proj' in r:
                x = reorder(x, 1, K, R, dv)
        if r.endswith('norm.weight') and r != 'linear_attn.norm.weight':
            x = x + 1
        if 'conv1d' in r and x.ndim == 3:
            x = x.squeeze(1)
        if r.endswith('A_log'):
            return [('ssm_a', -np.exp(x))]
        if r.endswith('dt_bias'):
            return [('ssm_dt.bias', x)]
        if 'in_proj_qkvz' in r:
            y = x.reshape(K, 2 * dk + 2 * R * dv, -1)
            q, k, v, z = np.split(y, [dk, 2 * dk, 2 * dk + R * dv], 1)
            fl = lambda a: a.reshape(-1, x.shape[1])
            return [('attn_qkv.weight', np.concatenate([fl(q), fl(k), fl(v)])), ('attn_gate.weight', fl(z))]
        return [(None, x)]
    return f

def qwen_keys(c):
    d = {**attention_keys(c), **head_keys(c), 'rope.dimension_count': int(c['head_dim'] * 0.25), 'ssm.conv_kernel': c['linear_conv_kernel_dim'], 'ssm.state_size': c['linear_key_head_dim'], 'ssm.group_count': c['linear_num_key_heads'], 'ssm.time_step_rank': c['linear_num_value_heads'], 'ssm.inner_size': c['linear_num_value_heads'] * c['linear_value_head_dim'], 'full_attention_interval': 4}
    if 'num_experts' in c:
        d.update({'expert_count': c['num_experts'], 'expert_used_count': c['num_experts_per_tok'], 'expert_feed_forward_length': c['moe_intermediate_size'], 'expert_shared_feed_forward_length': c['shared_expert_intermediate_size']})
    if 'intermediate_size' in c:
        d['feed_forward_length'] = c['intermediate_size']
    return d

def of_mamba2(stem, group='mamba_n_groups'):

    def f(r, x, c):
        if r == stem + '.A_log':
            return [('ssm_a', -np.exp(x)[:, None] if x.ndim == 1 else -np.exp(x))]
        if r == stem + '.D':
            return [('ssm_d', x[:, None] if stem != 'M1' and x.ndim == 1 and r.startswith(stem) and M2 else x)]
        if r == stem + '.dt_bias':
            return [('ssm_dt.bias', x)]
        if r == stem + '.conv1d.weight':
            return [(None, x.squeeze(1))]
        if r == stem + '.norm.weight':
            return [(None, x.reshape(c[group], -1))]
        return [(None, x)]
    return f
M2 = True

def key_heads_by_layer(c, f):
    return [c['num_key_value_heads'] if f(i) else 0 for i in range(c.get('num_hidden_layers') or len(c['layers_block_type']))]
convert('n26-qwen3-next', 'qwen3next', QWEN, qwen_keys, of_qwen(False))
convert('n26-qwen3.5', 'qwen35', QWEN, lambda c: {**qwen_keys(c), 'rope.dimension_sections': [2, 1, 1, 0]}, of_qwen(True))
convert('n26-qwen3.5-moe', 'qwen35moe', QWEN, lambda c: {**qwen_keys(c), 'rope.dimension_sections': [2, 1, 1, 0]}, of_qwen(True))

def of_granite(r, x, c):
    if r == 'block_sparse_moe.input_linear.weight':
        return [('ffn_gate_exps.weight', x[:, :c['intermediate_size']]), ('ffn_up_exps.weight', x[:, c['intermediate_size']:])]
    if r == 'block_sparse_moe.output_linear.weight':
        return [('ffn_down_exps.weight', x)]
    if r == 'block_sparse_moe.router.layer.weight':
        return [('ffn_gate_inp.weight', x)]
    if r == 'shared_mlp.input_linear.weight':
        return [('ffn_gate_shexp.weight', x[:c['shared_intermediate_size']]), ('ffn_up_shexp.weight', x[c['shared_intermediate_size']:])]
    if r == 'shared_mlp.output_linear.weight':
        return [('ffn_down_shexp.weight', x)]
    if 'q_proj' in r:
        return [(None, permute(x, c['num_attention_heads']))]
    if 'k_proj' in r:
        return [(None, permute(x, c['num_key_value_heads']))]
    return of_mamba2('mamba')(r, x, c)
convert('n26-granite4-hybrid', 'granitehybrid', mamba_names('mamba'), lambda c: {**attention_keys(c), 'attention.head_count_kv': key_heads_by_layer(c, lambda i: c['layer_types'][i] == 'full_attention'), 'attention.scale': c['attention_multiplier'], 'embedding_scale': c['embedding_multiplier'], 'residual_scale': c['residual_multiplier'], 'logit_scale': c['logits_scaling'], 'rope.scaling.finetuned': False, 'feed_forward_length': c['intermediate_size'], 'expert_count': c['num_local_experts'], 'expert_used_count': c['num_experts_per_tok'], 'expert_shared_feed_forward_length': c['shared_intermediate_size'], 'ssm.conv_kernel': c['mamba_d_conv'], 'ssm.state_size': c['mamba_d_state'], 'ssm.group_count': c['mamba_n_groups'], 'ssm.inner_size': c['mamba_expand'] * c['hidden_size'], 'ssm.time_step_rank': c['mamba_n_heads']}, of_granite)

def of_nemotron(r, x, c):
    if r == 'mixer.gate.e_score_correction_bias':
        return [('exp_probs_b.bias', x)]
    return of_mamba2('mixer', 'n_groups')(r, x, c)
NEMOTRON = {**mamba_names('mixer'), 'norm': 'attn_norm', 'mixer.q_proj': 'attn_q', 'mixer.k_proj': 'attn_k', 'mixer.v_proj': 'attn_v', 'mixer.o_proj': 'attn_output', 'mixer.up_proj': 'ffn_up', 'mixer.down_proj': 'ffn_down', 'mixer.gate': 'ffn_gate_inp', 'mixer.shared_experts.up_proj': 'ffn_up_shexp', 'mixer.shared_experts.down_proj': 'ffn_down_shexp'}
convert('n26-nemotron-h', 'nemotron_h_moe', NEMOTRON, lambda c: {'attention.head_count': c['num_attention_heads'], **head_keys(c), 'attention.head_count_kv': key_heads_by_layer(c, lambda i: c['layers_block_type'][i] == 'full_attention'), 'feed_forward_length': [{'mlp': c['intermediate_size'], 'moe': c['moe_intermediate_size']}.get(t, 0) for t in c['layers_block_type']], 'expert_count': c['n_routed_experts'], 'expert_used_count': c['num_experts_per_tok'], 'expert_feed_forward_length': c['moe_intermediate_size'], 'expert_shared_feed_forward_length': c['moe_shared_expert_intermediate_size'], 'expert_shared_count': 1, 'expert_weights_norm': True, 'expert_weights_scale': c['routed_scaling_factor'], 'expert_group_count': 1, 'ssm.conv_kernel': c['conv_kernel'], 'ssm.state_size': c['ssm_state_size'], 'ssm.group_count': c['n_groups'], 'ssm.inner_size': c['mamba_num_heads'] * c['mamba_head_dim'], 'ssm.time_step_rank': c['mamba_num_heads']}, of_nemotron)

def of_falcon_h1(r, x, c):
    a, b = c['mlp_multipliers']
    s = c['ssm_multipliers']
    I = c['mamba_d_ssm']
    G = c['mamba_n_groups'] * c['mamba_d_state']
    if 'down_proj' in r:
        x = x * b
    elif 'gate_proj' in r:
        x = x * a
    elif 'k_proj' in r:
        x = x * c['key_multiplier'] * c['attention_in_multiplier']
    elif 'q_proj' in r or 'v_proj' in r:
        x = x * c['attention_in_multiplier']
    elif 'o_proj' in r:
        x = x * c['attention_out_multiplier']
    elif 'out_proj' in r:
        x = x * c['ssm_out_multiplier']
    elif 'in_proj' in r:
        x = x * c['ssm_in_multiplier']
        x[:I] *= s[0]
        x[I:2 * I] *= s[1]
        x[2 * I:2 * I + G] *= s[2]
        x[2 * I + G:2 * I + 2 * G] *= s[3]
        x[2 * I + 2 * G:] *= s[4]
    return of_mamba2('mamba')(r, x, c)
FALCON_H1 = {**mamba_names('mamba'), 'pre_ff_layernorm': 'ffn_norm', 'feed_forward.gate_proj': 'ffn_gate', 'feed_forward.up_proj': 'ffn_up', 'feed_forward.down_proj': 'ffn_down', 'feed_forward.router': 'ffn_gate_inp'}
_load = load

def load(n):
    t = _load(n)
    if n == 'n26-falcon-h1':
        t['model.embed_tokens.weight'] *= 2.0
        t['lm_head.weight'] *= 0.7
    return t
convert('n26-falcon-h1', 'falcon-h1', FALCON_H1, lambda c: {**attention_keys(c), 'attention.key_length': 16, 'attention.value_length': 16, 'feed_forward_length': c['intermediate_size'], 'ssm.conv_kernel': c['mamba_d_conv'], 'ssm.state_size': c['mamba_d_state'], 'ssm.group_count': c['mamba_n_groups'], 'ssm.inner_size': c['mamba_d_ssm'], 'ssm.time_step_rank': c['mamba_n_heads']}, of_falcon_h1)
LFM = {'conv.conv': 'shortconv.conv', 'conv.in_proj': 'shortconv.in_proj', 'conv.out_proj': 'shortconv.out_proj', 'feed_forward.w1': 'ffn_gate', 'feed_forward.w2': 'ffn_down', 'feed_forward.w3': 'ffn_up', 'ffn_norm': 'ffn_norm', 'operator_norm': 'attn_norm', 'self_attn.out_proj': 'attn_output', 'self_attn.q_layernorm': 'attn_q_norm', 'self_attn.k_layernorm': 'attn_k_norm', 'feed_forward.gate': 'ffn_gate_inp'}

def of_lfm(r, x, c):
    if r == 'conv.conv.weight':
        return [(None, x.squeeze(1))]
    if r == 'feed_forward.expert_bias':
        return [('exp_probs_b.bias', x)]
    return [(None, x)]

def lkeys(c):
    d = {**attention_keys(c), 'attention.head_count_kv': key_heads_by_layer(c, lambda i: c['layer_types'][i] != 'conv'), 'feed_forward_length': c['intermediate_size'], 'shortconv.l_cache': c['conv_L_cache']}
    if 'num_experts' in c:
        d.update({'expert_count': c['num_experts'], 'expert_used_count': c['num_experts_per_tok'], 'expert_feed_forward_length': c['moe_intermediate_size'], 'leading_dense_block_count': c['num_dense_layers'], 'expert_gating_func': 2})
    return d
convert('n26-lfm2', 'lfm2', LFM, lkeys, of_lfm)
convert('n26-lfm2-moe', 'lfm2moe', LFM, lkeys, of_lfm)
convert('n26-mamba2', 'mamba2', {**mamba_names('mixer'), 'norm': 'attn_norm'}, lambda c: {'attention.head_count': 0, 'feed_forward_length': 0, 'ssm.conv_kernel': c['conv_kernel'], 'ssm.state_size': c['state_size'], 'ssm.group_count': c['n_groups'], 'ssm.inner_size': c['num_heads'] * c['head_dim'], 'ssm.time_step_rank': c['num_heads']}, of_mamba2('mixer', 'n_groups'))
M2 = False
convert('n26-mamba', 'mamba', {**mamba_names('mixer'), 'norm': 'attn_norm'}, lambda c: {'attention.head_count': 0, 'feed_forward_length': 0, 'ssm.conv_kernel': c['conv_kernel'], 'ssm.state_size': c['state_size'], 'ssm.inner_size': c['intermediate_size'], 'ssm.time_step_rank': c['time_step_rank'], 'ssm.dt_b_c_rms': False}, of_mamba2('mixer'))
convert('n26-jamba', 'jamba', {**FALCON_H1}, lambda c: {**attention_keys(c), 'attention.head_count_kv': key_heads_by_layer(c, lambda i: i % c['attn_layer_period'] == c['attn_layer_offset']), 'feed_forward_length': c['intermediate_size'], 'expert_count': c['num_experts'], 'expert_used_count': c['num_experts_per_tok'], 'ssm.conv_kernel': c['mamba_d_conv'], 'ssm.state_size': c['mamba_d_state'], 'ssm.inner_size': c['mamba_expand'] * c['hidden_size'], 'ssm.time_step_rank': c['mamba_dt_rank']}, of_mamba2('mamba'))

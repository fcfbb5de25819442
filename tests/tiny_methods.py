"""Settings of EasyEdit's methods for the tiny decoder."""

_MODULES = {
    "rewrite_module_tmp": "model.layers.{}.mlp.down_proj.weight",
    "layer_module_tmp": "model.layers.{}",
    "mlp_module_tmp": "model.layers.{}.mlp",
    "attn_module_tmp": "model.layers.{}.self_attn",
    "ln_f_module": "model.norm",
    "lm_head_module": "lm_head",
}
_COMMON = {"device": "cpu", "batch_size": 1, "max_length": 40, "model_parallel": False}
TINY_METHODS = {
    "FT": _COMMON
    | _MODULES
    | {
        "layers": [1],
        "num_steps": 100,
        "lr": 1e-2,
        "weight_decay": 0,
        "kl_factor": 0,
        "norm_constraint": False,
    }
    | {"objective_optimization": "target_new"},
    "GRACE": _COMMON
    | {
        "inner_params": ["model.layers[1].mlp.down_proj.weight"],
        "edit_lr": 1.0,
        "n_iter": 50,
        "eps": 1.0,
        "dist_fn": "euc",
    }
    | {
        "val_init": "cold",
        "val_train": "sgd",
        "val_reg": None,
        "reg": "early_stop",
        "replacement": "replace_last",
    }
    | {"eps_expand": "coverage", "num_pert": 8, "dropout": 0.0},
    "ULTRAEDIT": _COMMON
    | {
        "inner_params": ["model.layers.1.mlp.down_proj"],
        "tokenizer_name": "tiny-llama",
        "model_class": "AutoModelForCausalLM",
        "tokenizer_class": "AutoTokenizer",
        "lr": 1e-2,
        "token": "mask",
        "batch_size_once": 1,
        "editor_batch_size": 64,
    }
    | {"dropout": 0.0, "no_grad_layers": None, "silent": False, "half": False, "results_dir": "results"},
    "LoRA": _COMMON
    | {
        "lora_type": "lora",
        "layers": [],
        "num_steps": 60,
        "lr": 1e-2,
        "weight_decay": 0,
        "kl_factor": 0,
        "rank": 8,
        "lora_alpha": 32,
        "lora_dropout": 0.1,
        "norm_constraint": False,
        "target_modules": ["q_proj", "v_proj", "down_proj"],
    },
}

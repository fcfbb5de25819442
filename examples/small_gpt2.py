"""A small GPT-2, trained from nothing on the text that ships (minutes on a CPU): a decoder of another family
to try things on.

python examples/small_gpt2.py checkpoints/small-gpt2 [steps]
larimar-editor fit --model checkpoints/small-gpt2 --code-size 256 --out checkpoints/small-gpt2-closed-form
larimar-editor train configs/training/smollm2-135m.yaml --out runs/small-gpt2 \\
    --set decoder=checkpoints/small-gpt2 \\
    --set checkpoint=checkpoints/small-gpt2-closed-form
"""

import sys

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, Trainer, TrainingArguments

from larimar_editor.data.texts import SENTENCES, TRIVIA, read_sentences

out, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1500
torch.manual_seed(0)
sentences = read_sentences(SENTENCES) + read_sentences(TRIVIA)
# A vocabulary of its own: the larger it is, the longer a small model takes to learn it.
bpe = ByteLevelBPETokenizer()
bpe.train_from_iterator(sentences, vocab_size=4096, special_tokens=["<|endoftext|>"], show_progress=False)
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=bpe, bos_token="<|endoftext|>", eos_token="<|endoftext|>"
)
config = GPT2Config(
    vocab_size=len(tokenizer),
    n_positions=256,
    n_embd=256,
    n_layer=6,
    n_head=4,
    bos_token_id=0,
    eos_token_id=0,
)
model = GPT2LMHeadModel(config)
texts = [ids[:64] for ids in tokenizer(sentences).input_ids]


def padded(rows: list[list[int]]) -> dict[str, torch.Tensor]:
    longest = max(map(len, rows))
    ids = torch.tensor([row + [tokenizer.eos_token_id] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


arguments = TrainingArguments(
    out,
    max_steps=steps,
    per_device_train_batch_size=32,
    learning_rate=1e-3,
    warmup_steps=100,
    save_strategy="no",
    logging_steps=100,
    report_to=[],
    use_cpu=not torch.cuda.is_available(),
    dataloader_pin_memory=False,
)
Trainer(model, arguments, train_dataset=texts, data_collator=padded).train()
model.save_pretrained(out)
tokenizer.save_pretrained(out)
print(f"a GPT-2 of {config.n_layer} layers, vocabulary {config.vocab_size}")

# prints:
# a GPT-2 of 6 layers, vocabulary 4096

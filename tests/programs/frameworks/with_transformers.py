"""The Trainer of Hugging Face: accumulation, an evaluation after each epoch."""

import json
import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

torch.manual_seed(0)
config = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=16, num_labels=2,
)  # fmt: skip
data = [{"input_ids": torch.randint(50, (6,)), "labels": torch.tensor(i % 2)} for i in range(40)]
with tempfile.TemporaryDirectory() as directory:
    arguments = TrainingArguments(
        output_dir=directory, num_train_epochs=2, per_device_train_batch_size=8,
        gradient_accumulation_steps=4, use_cpu=True, report_to=[], disable_tqdm=True,
        save_strategy="no", eval_strategy="epoch", per_device_eval_batch_size=8,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    trainer = Trainer(model=model, args=arguments, train_dataset=data, eval_dataset=data)
    trainer.train()
evaluations = {"eval": [10, 80]}
print(json.dumps({"steps": trainer.state.global_step, "items": 80, "evaluations": evaluations}))

"""Pretrained causal language models from files: a build that brings any source into one form, and its method."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, ClassVar, Literal

from harness.contract import AssetReference, Build, Context, Method, Needs

Precision = Literal["float32", "bfloat16"]


class LanguageModel(Method):
    """A causal language model that lm-evaluation-harness can ask."""

    abstract: ClassVar[bool] = True

    def harness_model(self, batch: int, context: Context) -> Any:
        """The ``lm_eval.api.model.LM``, on the granted threads or accelerator; ``batch`` requests at once."""
        raise NotImplementedError(f"{type(self).__name__} must define harness_model(self, batch, context)")


class StoredModel(LanguageModel):
    """A folder with safetensors weights, configuration and tokenizer, as transformers reads it."""

    abstract: ClassVar[bool] = True

    folder: str
    dtype: Precision

    def harness_model(self, batch: int, context: Context) -> Any:
        """See :class:`LanguageModel`. Nothing is looked up on the hub, and no code of the folder is run."""
        import torch
        from lm_eval.models.huggingface import HFLM

        hub = transformers_library()
        torch.set_num_threads(context.cpus)
        device = "cuda" if context.devices else "cpu"
        local = {"local_files_only": True, "trust_remote_code": False}
        tokenizer = hub.AutoTokenizer.from_pretrained(self.folder, **local)
        model = hub.AutoModelForCausalLM.from_pretrained(
            self.folder, dtype=getattr(torch, self.dtype), use_safetensors=True, **local
        )
        return HFLM(pretrained=model.to(device).eval(), tokenizer=tokenizer, batch_size=batch, device=device)


class Checkpoint(Build[StoredModel]):
    """A pretrained causal model and its tokenizer: a folder as transformers saves it, or one GGUF file.

    GGUF is converted once, its weights de-quantised: such a model is not the published one. ``dtype``: of the weights
    when it runs. No chat template is applied.
    """

    name: ClassVar[str] = "checkpoint"
    needs: ClassVar[Needs] = Needs(extras=("lm-eval",))

    source: AssetReference
    dtype: Precision = "float32"

    def make(self, context: Context) -> dict[str, float]:
        """Convert or copy; return the size in bytes. Raises ValueError for what is neither."""
        found = context.asset(self.source)
        if found.is_file() and found.suffix.lower() == ".gguf":
            convert_gguf(found, context)
        elif found.is_dir():
            copy_model(found, context.directory, self.source)
        else:
            raise ValueError(f"{self.source}: expected a .gguf file or a folder with config.json, found {found.name}")
        return {"bytes": sum(f.stat().st_size for f in context.directory.iterdir())}

    def load(self, directory: Path) -> StoredModel:
        return StoredModel(folder=str(directory), dtype=self.dtype)


def transformers_library() -> Any:
    """Imported where it is used: it takes seconds. Its types do not hold for what its factories return."""
    import transformers

    return transformers


def convert_gguf(source: Path, context: Context) -> None:
    """De-quantise into float32 safetensors.

    A model that was read from GGUF cannot be saved as such: its weights go into a fresh one of the same configuration.
    """
    import torch

    hub = transformers_library()
    torch.set_num_threads(context.cpus)
    where: dict[str, Any] = {"gguf_file": source.name, "local_files_only": True, "trust_remote_code": False}
    tokenizer = hub.AutoTokenizer.from_pretrained(str(source.parent), **where)
    model = hub.AutoModelForCausalLM.from_pretrained(str(source.parent), dtype=torch.float32, **where)
    config = model.config
    del config.quantization_config
    clean = hub.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    clean.load_state_dict(model.state_dict())
    clean.generation_config = model.generation_config
    clean.save_pretrained(context.directory)
    tokenizer.save_pretrained(context.directory)


def copy_model(source: Path, target: Path, reference: str) -> None:
    """Link (or copy) configuration, tokenizer and safetensors weights. Raises ValueError where one is missing."""
    files = [f for f in source.iterdir() if f.is_file()]
    weights = [f for f in files if f.suffix == ".safetensors"]
    if not (source / "config.json").is_file() or not weights:
        names = ", ".join(sorted(f.name for f in files)[:8]) or "nothing"
        raise ValueError(f"{reference}: expected config.json and *.safetensors, found {names}")
    for file in [*weights, *(f for f in files if f.suffix in (".json", ".model", ".txt", ".jinja"))]:
        try:
            os.link(file.resolve(), target / file.name)
        except OSError:  # another file system, or none that links
            shutil.copyfile(file, target / file.name)

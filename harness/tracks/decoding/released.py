"""Decoders that others have trained: the checkpoints released with arXiv 2603.02188 (hub repository Soughing/MLRA)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from harness.contract import AssetReference, Build, Context, Given, Needs
from harness.tracks.decoding.decoder import Decoder, Size, count_parameters
from harness.tracks.decoding.protocol import Attention
from harness.tracks.decoding.release_names import EMBEDDINGS, sources

FILE = "model.safetensors"
VOCABULARY = "vocabulary"
SHOWN = 6
PICKLED = (".bin", ".pt", ".pth")


class Released(Build[Decoder]):
    """A decoder with released weights, in the sizes that the spec gives.

    ``weights``: the files of one model, or folders with them (.safetensors; .bin and .pt are read as plain tensors,
    and hub: wants #allow-pickle for them). Large models lie in several files: name them all.
    """

    name: ClassVar[str] = "released"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch",))

    method: Given[Attention]
    size: Given[Size]
    weights: Annotated[Sequence[AssetReference], {"minItems": 1}]

    def make(self, context: Context) -> dict[str, float]:
        """Bring the weights into this track's names; return the number of parameters.

        Raises ValueError that names all tensors that are missing, left over or of another shape.
        """
        torch.set_num_threads(context.cpus)
        given = read_weights([context.asset(w) for w in self.weights])
        embedding = next((given[name] for name in EMBEDDINGS if name in given), None)
        if embedding is None:
            raise ValueError(f"the weights have none of {', '.join(EMBEDDINGS)}: found {_listed(sorted(given))}")
        with torch.device("meta"):
            decoder = Decoder(self.method, self.size, len(embedding))
        wanted = {name: tuple(t.shape) for name, t in decoder.state_dict().items()}
        save_file(translate(given, wanted), context.directory / FILE)
        return {"parameters": count_parameters(decoder), VOCABULARY: len(embedding)}

    def load(self, directory: Path) -> Decoder:
        tensors = load_file(directory / FILE)
        decoder = Decoder(self.method, self.size, len(tensors["embedding.weight"]))
        decoder.load_state_dict(tensors)
        return decoder.eval()


def read_weights(places: Sequence[Path]) -> dict[str, Tensor]:
    """All tensors of the files, or of the weights in the folders; pickles are opened as tensors and nothing else.

    Raises ValueError where there are none.
    """
    tensors: dict[str, Tensor] = {}
    for place in places:
        found = sorted(place.iterdir()) if place.is_dir() else [place]
        safe = [f for f in found if f.suffix == ".safetensors"]
        for file in safe or [f for f in found if f.suffix in PICKLED]:
            tensors |= (
                load_file(file)
                if file.suffix == ".safetensors"
                else torch.load(file, map_location="cpu", weights_only=True)
            )
    if not tensors:
        raise ValueError(f"no weights (.safetensors, {', '.join(PICKLED)}) in {', '.join(p.name for p in places)}")
    return tensors


def translate(given: Mapping[str, Tensor], wanted: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Our state dict from theirs. ``wanted``: our names and shapes. Raises ValueError, see :meth:`Released.make`."""
    made: dict[str, Tensor] = {}
    wrong: list[str] = []
    used = {name for name in EMBEDDINGS if name in given}  # tied: one of two equal tensors is taken
    for name, shape in wanted.items():
        options = sources(name)
        option = next((o for o in options if o.names(given)), None)
        if option is None:
            wrong.append(f"{name} has no source ({' or '.join(map(str, options)) or 'none is known'})")
            continue
        names = option.names(given)
        used |= set(names)
        shapes = f"{' and '.join(names)} of {' and '.join(str(tuple(given[n].shape)) for n in names)}"
        try:
            tensor = option.join([given[n] for n in names])
        except RuntimeError:
            wrong.append(f"{shapes} do not fit together for {name} {shape}")
            continue
        if tuple(tensor.shape) != shape:
            wrong.append(f"{shapes} gives {name} {tuple(tensor.shape)}, expected {shape}")
        made[name] = tensor.contiguous().clone()
    wrong += [f"{name} {tuple(given[name].shape)} is not wanted" for name in sorted(set(given) - used)]
    if wrong:
        raise ValueError(f"the weights are not those of this method and size: {_listed(wrong)}")
    return made


def _listed(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return "; ".join(texts[:SHOWN]) + more

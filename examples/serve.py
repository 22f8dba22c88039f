"""Serves the GPT of `train_gpt.py`: prompts of different lengths, a paged cache, a token of each sequence at a time.

    python examples/serve.py                    # on a GPU: the small model, 64 sequences
    python examples/serve.py --size tiny --sequences 2 --new 3      # anywhere, in the simulator

A prompt goes through `px.torch.attention`, packed with the others; its keys and values are scattered to pages that the
sequence owns. Then every step decodes one token of each sequence by `px.torch.attention_decode` from the pages. The tokens
are compared with those that the model gives without a cache.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import gpt
import torch
from gpt import rotations

import phalanx as px

SIZES = {"tiny": gpt.TINY, "small": gpt.SMALL, "card": gpt.CARD}
PAGE = 64
"""Tokens of a page."""
ON_GPU = torch.cuda.is_available()


class Pages:
    """The caches of all layers, cut into pages; a sequence owns some of them, listed in its row of the table."""

    def __init__(self, sizes: gpt.Sizes, sequences: int, longest: int, device: Any) -> None:
        each = -(-longest // PAGE)
        shape = (sizes.layers, sequences * each, PAGE, sizes.kv_heads, sizes.head_dim)
        self.keys, self.values = (torch.zeros(shape, dtype=torch.bfloat16, device=device) for _ in range(2))
        # Any order serves: pages that are taken as sequences grow lie scattered.
        order = torch.randperm(sequences * each, generator=torch.Generator().manual_seed(0))
        self.table = order.reshape(sequences, each).to(device, torch.int32)
        self.lengths = torch.zeros(sequences, dtype=torch.int32, device=device)

    def rows(self, sequence: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """The rows of the flat cache where tokens at these places of these sequences lie."""
        return self.table[sequence, place // PAGE].long() * PAGE + place % PAGE

    def store(self, layer: int, rows: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        """Puts keys and values (tokens, kv_heads, head_dim) of a layer where they belong."""
        for cache, new in ((self.keys, k), (self.values, v)):
            px.torch.scatter_rows(new.flatten(1), rows, cache[layer].flatten(2).flatten(0, 1))


class Server:
    """A model with its pages."""

    def __init__(self, model: gpt.GPT, sequences: int, longest: int) -> None:
        self.model, self.sizes = model, model.sizes
        self.device = model.norm.device
        self.pages = Pages(model.sizes, sequences, longest, self.device)
        self.cos, self.sin = (part.to(self.device) for part in rotations(longest, model.sizes.head_dim))

    def through(self, tokens: Any, places: Any, sequence: Any, attend: Any) -> Any:
        """The last hidden states of a list of tokens; `attend(layer, q, k, v)` is how they look at each other and back."""
        rows = self.pages.rows(sequence, places)
        x = px.torch.embedding(self.model.table.to(torch.bfloat16), tokens)[None]
        rope = self.cos[places], self.sin[places]
        for layer, block in enumerate(self.model.blocks):
            q, k, v = (part[0].transpose(0, 1) for part in block.heads(x, rope))
            self.pages.store(layer, rows, k.contiguous(), v.contiguous())
            y = attend(layer, q, k, v)
            x = block.rest(x, y.transpose(0, 1)[None])
        return px.torch.rms_norm(x, self.model.norm, 1e-6)[0]

    def prompt(self, prompts: list[torch.Tensor]) -> torch.Tensor:
        """Takes one prompt for each sequence, packed; gives the token that follows each."""
        lengths = [len(one) for one in prompts]
        starts = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32, device=self.device)
        places = torch.cat([torch.arange(n) for n in lengths]).to(self.device)
        sequence = torch.cat([torch.full((n,), i) for i, n in enumerate(lengths)]).to(self.device)

        def attend(layer: int, q: Any, k: Any, v: Any) -> Any:
            return px.torch.attention(
                q.contiguous(), k.contiguous(), v.contiguous(), causal=True, cu_seqlens_q=starts, cu_seqlens_k=starts
            )

        x = self.through(torch.cat(prompts).to(self.device), places, sequence, attend)
        self.pages.lengths = starts.diff()
        return self.next_tokens(x[starts[1:].long() - 1])

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Takes the next token of each sequence; gives those that follow."""
        pages = self.pages
        places, sequence = pages.lengths.long(), torch.arange(len(tokens), device=self.device)
        pages.lengths = pages.lengths + 1

        def attend(layer: int, q: Any, k: Any, v: Any) -> Any:
            caches = pages.keys[layer], pages.values[layer]
            return px.torch.attention_decode(q[:, None].contiguous(), *caches, pages.lengths, pages=pages.table)[:, 0]

        return self.next_tokens(self.through(tokens, places, sequence, attend))

    def next_tokens(self, x: Any) -> torch.Tensor:
        """The likeliest token behind each hidden state."""
        return self.model.logits(x).float().argmax(-1)


def without_cache(model: gpt.GPT, prompt: torch.Tensor, new: torch.Tensor) -> tuple[int, int]:
    """Of how many of the new tokens the whole model, run over all of them at once, agrees; and of how many it was sure."""
    tokens = torch.cat((prompt.to(new.device), new))
    logits = model.logits(model.hidden(tokens[None]))[0, len(prompt) - 1 : -1].float()
    best, second = logits.topk(2, -1).values.unbind(-1)
    sure = best - second > 0.02 * best.abs() + 0.01  # nearer ones are a matter of rounding
    return int((logits.argmax(-1).eq(new) & sure).sum()), int(sure.sum())


def main(arguments: list[str] | None = None) -> None:
    """Serves random prompts, and verifies the tokens."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", choices=SIZES, default="small" if ON_GPU else "tiny")
    parser.add_argument("--sequences", type=int, default=64 if ON_GPU else 2)
    parser.add_argument("--new", type=int, default=64 if ON_GPU else 3)
    given = parser.parse_args(arguments)
    sizes, device = SIZES[given.size], torch.device("cuda" if ON_GPU else "cpu")
    torch.manual_seed(0)
    with torch.no_grad():
        model = gpt.GPT(sizes).to(device)
        model.head.mul_(20)  # untrained: scores that differ
        text = gpt.Text(sizes.vocab)
        longest = sizes.length - given.new
        lengths = torch.randint(longest // 2, longest, (given.sequences,)).tolist()
        prompts = [torch.from_numpy(text.batch(1, n)[0]) for n in lengths]
        server = Server(model, given.sequences, sizes.length)
        made = [server.prompt(prompts)]
        start = time.perf_counter()
        for _ in range(given.new - 1):
            made.append(server.step(made[-1]))
        tokens = torch.stack(made, 1)
        tokens.sum().item()
        spent = time.perf_counter() - start
        found = [without_cache(model, prompt, new) for prompt, new in zip(prompts[:4], tokens)]
    agreed, sure = (sum(column) for column in zip(*found))
    rate = given.sequences * (given.new - 1) / spent
    print(f"{given.sequences} sequences, {given.new} tokens each: {rate:,.0f} tokens a second")
    print(f"the first one goes on: {text.words(tokens[0, :6])} ...")
    assert agreed == sure, f"{sure - agreed} of {sure} tokens are others without a cache"
    print(f"right: all of {sure} tokens that are no matter of rounding are those without a cache")


if __name__ == "__main__":
    main()

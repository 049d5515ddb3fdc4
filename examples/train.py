#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
#
# train.py -- a GPT of 89 million parameters learns random text, and saves checkpoints
#
# An ordinary PyTorch script. Model and Adam's state are 1 GiB (--small: 70 MiB).
# Every --save-every steps it saves a checkpoint, in turns as
#
#   OUT/step-N.pt   under its own name; the last two are kept
#   OUT/last.pt     written under a temporary name, then put in place
#
# and --resume goes on from the newest. A line says how long each save took.
import argparse
import glob
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for t in self.qkv(self.norm1(x)).split(width, dim=2)
        )
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, vocabulary, context, width, heads, layers):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1])
        return self.head(self.norm(self.blocks(self.tokens(tokens) + self.places(places))))


def step_of(path):
    return int(path.rsplit("-", 1)[1].removesuffix(".pt"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="ckpt")
    parser.add_argument("--steps", type=int, default=18)
    parser.add_argument("--save-every", type=int, default=3)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--resume", action="store_true")
    args = parser.parse_args()

    vocabulary, context = 5120, 256
    width, heads, layers = (256, 4, 6) if args.small else (768, 12, 12)
    torch.manual_seed(1)
    model = GPT(vocabulary, context, width, heads, layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    step = 0

    os.makedirs(args.out, exist_ok=True)
    if args.resume:
        newest = max(glob.glob(f"{args.out}/*.pt"), key=os.path.getmtime)
        checkpoint = torch.load(newest)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        step = checkpoint["step"]
        del checkpoint
        print(f"resumed from {newest} at step {step}", flush=True)

    while step < args.steps:
        step += 1
        generator = torch.Generator().manual_seed(step)
        text = torch.randint(vocabulary, (args.batch, args.length + 1), generator=generator)
        logits = model(text[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}", flush=True)

        if step % args.save_every == 0:
            checkpoint = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "step": step,
            }
            if step // args.save_every % 2:
                path = f"{args.out}/step-{step}.pt"
                began = time.perf_counter()
                torch.save(checkpoint, path)
                print(f"saved {path} in {time.perf_counter() - began:.3f} s", flush=True)

                for old in sorted(glob.glob(f"{args.out}/step-*.pt"), key=step_of)[:-2]:
                    began = time.perf_counter()
                    os.remove(old)
                    print(f"removed {old} in {time.perf_counter() - began:.3f} s", flush=True)
            else:
                path = f"{args.out}/last.pt"
                began = time.perf_counter()
                torch.save(checkpoint, path + ".tmp")
                os.replace(path + ".tmp", path)
                print(f"saved {path} in {time.perf_counter() - began:.3f} s", flush=True)


if __name__ == "__main__":
    main()

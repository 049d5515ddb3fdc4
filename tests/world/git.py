# SPDX-License-Identifier: BSD-3-Clause
# git makes, clones, packs, repacks, bundles and checks a repository.
# Right: the same output, the same objects, references and working trees; packs are the same to the byte.
# run: script timeout=300
import glob
import os
import random
import shutil

from lib import program, trial, world

SETUP = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "c", "GIT_COMMITTER_EMAIL": "c@d",
         "GIT_AUTHOR_DATE": "2000-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2000-01-02T00:00:00Z",
         "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "config"}
CONFIG = "[pack]\nthreads = 1\n[gc]\nauto = 0\n[init]\ndefaultBranch = main\n[protocol \"file\"]\nallow = always\n"
# What holds times of files, or is written by the clock.
LOOSE = "index", "FETCH_HEAD", "gitweb", "bitmap", "multi-pack-index"

QUICK = """
git init -q one; cp -r files one/a; cd one; git add .; git commit -qm first; git status --short
cd one; for i in 1 2 3 4 5; do echo $i >>a/text; git commit -qam $i; done; git log --oneline | wc -l; git fsck --full --strict
git clone -q one two; cd two; git fsck --full; git rev-parse HEAD; git status --short
cd one; git gc -q; git fsck --full; git count-objects -v | grep -v size; git verify-pack -v .git/objects/pack/*.idx | sort | md5sum
cd two; git rm -q a/1; git mv a/2 a/two; git commit -qm removed; git push -q origin HEAD:other; cd ../one; git log --oneline other | wc -l
"""
MORE = """
git clone -q --no-hardlinks one three; git clone -q --bare one four; git clone -q --mirror one five; git clone -q --depth 2 file://$PWD/one six; git clone -q --shared one seven; for i in three four five six seven; do git -C $i fsck; git -C $i rev-parse HEAD; done
cd one; git repack -adfq --depth=20 --window=20; git fsck --full; git prune-packed -q; git repack -q -A -d --write-bitmap-index; git multi-pack-index write --no-progress; git multi-pack-index verify --no-progress; git commit-graph write --reachable --no-progress; git commit-graph verify --no-progress; git fsck
cd one; git bundle create -q ../all.bundle --all; git bundle verify -q ../all.bundle; cd ..; git clone -q -b main all.bundle eight; git -C eight fsck; git -C eight rev-parse HEAD; md5sum all.bundle
cd two; git checkout -q -b work HEAD~3; cp ../files/big a/new; git add a/new; git commit -qm branch; git merge -q -m merged main; git rebase -q main 2>&1 | tail -1; git cherry-pick main~1 2>&1 | tail -2; git cherry-pick --abort; git status --short; git fsck
cd two; echo x >>a/text; git stash -q; git stash apply -q; git diff --stat; git checkout -q -- .; git reset -q --hard HEAD~1; git stash drop -q; git reflog expire --expire=now --all; git gc -q --prune=now; git fsck --full; git count-objects
cd two; git format-patch -q -3 -o ../patches HEAD; git checkout -q HEAD~3; git am -q ../patches/*; git diff --stat work; git archive -o ../tree.tar HEAD; git archive -o ../tree.tgz HEAD; git archive -o ../tree.zip HEAD; md5sum ../tree.*
cd one; git worktree add -q ../nine HEAD~2; cd ../nine; echo more >>a/text; git commit -qam worktree; git tag -a -m tagged t1; git notes add -m noted; git fsck; cd ../one; git worktree list | wc -l; git branch --list | wc -l
git init -q --bare ten; cd one; git push -q ../ten --all; git push -q ../ten --tags; cd ../ten; git fsck --full; git gc -q; git rev-list --objects --all | git cat-file --batch-check | md5sum; git fast-export --all | md5sum
git -C one fast-export --all >export; git init -q eleven; cd eleven; git fast-import --quiet <../export; git checkout -q main; git fsck --full; git rev-parse HEAD; git ls-files -s | md5sum
cd six; git fetch -q --unshallow; git fsck; git rev-list --count HEAD; git submodule --quiet add ../one sub; git commit -qm sub; git submodule status | wc -l; git sparse-checkout set sub; ls; git sparse-checkout disable; git status --short
cd three; git config core.fsync all; git config core.fsyncMethod fsync; for i in 1 2 3; do cp ../files/big a/big$i; echo $i >>a/big$i; git add .; git commit -qm big$i; done; git config core.bigFileThreshold 100k; cp ../files/big a/whole; git add .; git commit -qm whole; git repack -adq; git fsck --full
cd three; git index-pack --fsck-objects -o ../x.idx .git/objects/pack/*.pack; git unpack-objects -q -r <../all.bundle 2>/dev/null; git update-index --split-index; git update-index --no-split-index; git update-index --index-version 4; git read-tree HEAD; git checkout-index -fa; git status --short; git grep -c e | md5sum; git blame -s a/text | md5sum
"""


def inputs(top):
    source = random.Random(2)
    os.makedirs(top)
    lines = [bytes(source.choices(b"abcdefgh e", k=40)) + b"\n" for _ in range(500)]
    contents = {str(i): b"".join(source.choices(lines, k=i * 20)) for i in range(40)}
    contents |= {"text": b"".join(source.choices(lines, k=5000)), "big": source.randbytes(1500000)}
    for name, data in contents.items():
        with open(os.path.join(top, name), "wb") as f:
            f.write(data)


def history(commands):
    def once(place):
        shutil.copytree(os.path.join(trial.TOP, "files"), os.path.join(place.path, "files"))
        with open(os.path.join(place.path, "config"), "w", encoding="utf-8") as f:
            f.write(CONFIG)
        setup = {**SETUP, "GIT_CONFIG_GLOBAL": os.path.join(place.path, "config")}
        found = {}
        for command in commands:
            out = place.run(["bash", "-c", command], 120, **setup)
            found[command] = (out.how(), out.out, out.err)
        for path in glob.glob(os.path.join(place.path, "*/")):
            if os.path.exists(os.path.join(path, ".git")) or os.path.exists(os.path.join(path, "HEAD")):
                out = place.run(["git", "-C", path, "fsck", "--full"], 120, mode=None, **setup)
                found[f"fsck of {os.path.basename(path[:-1])}"] = (out.how(), out.out, out.err)
        return found | {k: v for k, v in place.tree().items() if not any(word in k for word in LOOSE)}
    return once


world.tools("git")
inputs(os.path.join(trial.TOP, "files"))
suite = world.Suite("git")
suite.case("history", history((QUICK + MORE * world.WHOLE).strip().replace("\n\n", "\n").splitlines()))
suite.end(program.run(["git", "--version"], trial.TOP, program.environment(trial.JOB)).out.decode().strip())

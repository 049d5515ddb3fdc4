# SPDX-License-Identifier: BSD-3-Clause
# Tools that copy, pack, split, sort, compile and store files, each command with the shim and without.
# Right: the same output and status of each command, and in the end the same tree.
# run: script timeout=300
import contextlib
import os
import random
import shutil
import subprocess

from lib import trial, world

OLD = 946684800  # 2000-01-01: times that are kept are compared

# In each group a command a line, by bash, in a directory with src/ (see inputs).
GROUPS = {}
GROUPS["cp"] = """
cp src/random a; cp a b; cmp a b
cp src/random a; cp a a2; cp a2 a3; cp a3 a4; cmp src/random a4
cp -p src/random kept; stat -c '%a %Y' kept
cp -a src tree
cp -r tree tree2; diff -r tree tree2
cp -aT src tree3; cp -a --remove-destination src/. tree3
cp --sparse=always src/zero z1; cp --sparse=never src/sparse z2; cp --sparse=auto src/sparse z3; cp --sparse=always z2 z4
cp --reflink=auto src/text t1; cp --reflink=never src/text t2; cp --reflink=always src/text t3
cp -l src/text hard; cp -s $PWD/src/text soft; cp -L soft followed; cp -P soft copied
cp --backup=numbered src/text a; cp --backup=numbered src/random a; cp -b src/small a
cp -n src/zero a; cp -u src/zero a; cp -f src/zero b; cp --preserve=mode,timestamps src/small m
cp --attributes-only src/small attributes; cp -f --preserve=all src/random attributes
cp a a; cp src nowhere; cp src/absent x; cp --parents src/dir/1 tree2
cp src/random hard2; ln hard2 hard3; cp src/text hard2; cmp hard2 hard3
umask 077; cp src/text private; umask 0; cp src/text open; install -d -m 1777 sticky
cat src/text | cp /dev/stdin piped; cmp piped src/text
cp src/random new; cp new over; cp src/small over; cp src/random over
"""
GROUPS["mv ln install truncate"] = """
cp src/random a; mv a b; mv b c; cmp c src/random
cp src/text d; mv -b d c; mv -n src/small c; mkdir e; mv c e; mv e/c e/f; mv e g
cp src/text h; mv -T h i; mv -f i h; mv -u h src/copy; mv absent x
cp src/random one; ln one two; ln -s one three; mv one four; cat three; cmp two four
link two five; unlink two; rm five; ls -1
install src/text in1; install -m 640 -D src/text deep/er/in2; install -p -m 444 src/random in3; install -C src/text in1
install -b src/small in1; install -t deep src/small src/text; install -d x/y/z; install -m u=rwx,go= src/zero in4
cp src/random t; truncate -s 1000 t; truncate -s +5000000 t; truncate -s %4096 t; truncate -s -1 t; truncate -s '<100' t
truncate -r src/text t2; truncate -c -s 5 no; truncate -o -s 3 t3; truncate -s '>77' t3
cat src/text >t4; truncate -s 10 t4; cat src/random >>t4; cmp -n 3000000 <(tail -c +11 t4) src/random
cp src/text f; fallocate -l 6000000 f; fallocate -n -l 7000000 f; fallocate -p -o 4096 -l 8192 f; fallocate -d f
cp src/random f2; fallocate -z -o 5000 -l 100000 f2; fallocate -c -o 0 -l 8192 f2; fallocate -i -o 4096 -l 4096 f2; md5sum f f2
touch -d @946684800 t; touch -r src/text t2; touch new; cp src/text n; touch -d @946684801 n; stat -c %Y n t
cp src/text m; chmod 4755 m; chmod g-x m; chmod -R o-r deep; stat -c %a m deep/text
cp src/random s; sync s; sync -d s; sync -f s; sync
dd if=/dev/zero of=shred bs=1M count=2 status=none; shred -n 2 -z shred; md5sum shred; shred -n 1 --random-source=src/random shred; shred -u shred
mkfifo fifo; (cat src/random >fifo &); cat fifo >from; cmp from src/random
mktemp -d -p . >/dev/null; rmdir tmp.*; x=$(mktemp -p .); cat src/text >$x; cmp $x src/text; rm $x
"""
GROUPS["dd"] = """
dd if=src/random of=a bs=4k status=none; dd if=src/random of=b bs=1M status=none; dd if=src/random of=c bs=1000003 status=none; cmp a b; cmp a c
dd if=src/random of=d ibs=512 obs=100000 status=none; dd if=src/random of=e ibs=1M obs=512 count=2 status=none; md5sum d e
dd if=src/random of=a bs=4k seek=10 count=5 conv=notrunc status=none; dd if=src/text of=a bs=100 seek=7 count=3 status=none; md5sum a
dd if=src/random of=a bs=4k seek=1000 count=5 status=none; stat -c %s a; dd if=src/random of=a bs=1 skip=5 count=50 conv=notrunc seek=9 status=none; md5sum a
dd if=src/zero of=f bs=64k conv=sparse status=none; dd if=src/sparse of=g bs=4k conv=sparse status=none; cmp f src/zero; cmp g src/sparse
dd if=src/random of=h bs=64k conv=fsync status=none; dd if=src/random of=i bs=64k conv=fdatasync status=none; cmp h i
dd if=src/random of=j bs=64k oflag=sync status=none; dd if=src/random of=k bs=64k oflag=dsync status=none; cmp j k
dd if=src/random of=l bs=64k oflag=direct status=none; dd if=l of=l2 bs=64k iflag=direct status=none; cmp l l2
dd if=src/text of=m bs=64k oflag=append conv=notrunc status=none; dd if=src/text of=m bs=64k oflag=append conv=notrunc status=none; md5sum m
cat src/random | dd of=n bs=1M iflag=fullblock status=none; cat src/random | dd of=o ibs=100 obs=1M status=none; cmp n o
dd if=src/random of=p bs=3 count=300000 iflag=count_bytes,skip_bytes skip=77 oflag=seek_bytes seek=11 status=none; md5sum p
dd if=src/text of=q conv=ucase,swab status=none; dd if=src/text of=r cbs=80 conv=block status=none; dd if=r of=s cbs=80 conv=unblock status=none; md5sum q r s
dd if=src/text of=t conv=ebcdic,sync bs=1000 status=none; dd if=src/text of=t conv=excl status=none; dd if=src/text of=no conv=nocreat status=none; md5sum t
dd if=src/random of=u bs=64k oflag=nofollow,nonblock status=none; dd if=src/random of=/dev/null status=none; dd if=absent of=v; ls v
dd if=src/random bs=64k status=none >w; dd if=src/text bs=64k status=none >>w; (dd bs=10 count=3 status=none; dd bs=100 count=2 status=none) <src/text >x; md5sum w x
(dd if=src/text bs=1k count=4 status=none; dd if=src/random bs=1k count=4 seek=10 status=none; dd if=src/text bs=1k count=1 status=none) >y; md5sum y
dd if=a of=a bs=4k conv=notrunc status=none; dd if=src/random of=z bs=1M count=2 seek=4 status=none; dd if=z of=z2 bs=512 count=100 skip=4000 status=none; md5sum z z2
for i in 1 2 3 4 5 6 7 8; do dd if=src/random of=many bs=100k count=1 skip=$i seek=$((8 - i)) conv=notrunc status=none; done; md5sum many
"""
GROUPS["split sort tee"] = """
split -b 300000 src/random s1.; cat s1.* | cmp - src/random
split -l 3000 -d -a 4 src/text s2.; split -n 5 src/random s3.; split -n l/4 src/text s4.; split -n r/3 src/text s5.
split -C 100k --additional-suffix=.txt src/text s6.; split -b 1M --filter='gzip -n >$FILE.gz' src/random s7.; zcat s7.*.gz | cmp - src/random
split -u -l 5000 src/text s8.; cat src/text | split -b 77777 - s9.; split -e -n 20 src/small s10.; ls s* | wc -l
csplit -s -f c1. src/text 100 '/e/' '{50}'; csplit -s -k -f c2. -z src/text 5 5 5; cat c1.* | cmp - src/text
sort src/text -o o1; sort -u -o o2 src/text; cp src/text o3; sort -o o3 o3; sort -r o3 -o o3; sort -c o1
sort -S 100k -T . src/text -o o4; cmp o1 o4; sort -S 100k -T . --compress-program=gzip --batch-size=3 --parallel=2 src/text -o o5; cmp o1 o5
sort -m o1 o4 -o o6; sort -k2,3n -t' ' -s src/text >o7; sort -R --random-source=src/random src/text -o o8; shuf --random-source=src/random src/text -o o9
tee t1 t2 <src/random >t3; cmp t1 t2; cmp t1 t3; tee -a t1 <src/text >>t2; cmp t1 t2; echo x | tee -a t1 t4 /dev/null
tac src/text >u1; rev <src/text >u2; uniq -c o1 u3; comm o1 o2 >u4; join o2 o2 >u5 2>&1; paste src/text src/text >u6; cut -c 3-9 src/text >u7
fold -w 20 src/text >u8; fmt src/text >u9; pr -l 60 -h x -D d src/text >u10; nl src/text >u11; expand src/text >u12; od -A d -t x1z src/random >u13
base64 src/random >v1; base64 -d v1 >v2; cmp v2 src/random; basenc --z85 <(head -c 4000 src/random) >v3; tr a-z A-Z <src/text >v4; wc src/* 2>&1 >v5
md5sum src/random src/text >w1; md5sum -c w1; sha256sum src/* 2>/dev/null >w2; b2sum src/text >w3; cksum src/text >w4; sum src/text >w5
seq 1 200000 >x1; seq 1 5000 | factor >x2; yes | head -n 300000 >x3; numfmt --to=iec <x1 >x4; printf '%d\\n' $(seq 1 2000) >x5; stdbuf -o0 seq 1 3000 >x6; stdbuf -oL seq 1 30000 >x7
"""
GROUPS["shell"] = """
cat src/random >a; cat src/text >>a; cat src/small >|a; set -C; cat src/text >a; cat src/text >b; md5sum a b
exec 3>c; cat src/random >&3; echo x >&3; cat src/text >&3; exec 3>&-; md5sum c
exec 3<>d; cat src/random >&3; exec 3>&-; exec 3<>d; echo yyy >&3; head -c 5 <&3 | od -c; cat src/small >&3; md5sum d
{ cat src/random; cat src/text; echo end; } >e; md5sum e; (cat src/random & wait; cat src/text) >f; md5sum f
for i in $(seq 1 300); do echo line $i; done >g; for i in $(seq 1 300); do echo line $i >>h; done; cmp g h; while read x; do echo "$x"; done <g >i; cmp g i
printf 'cat <<E >j\\nline $((1 + 2))\\nE\\n' >script; bash script; cat j; cat /dev/fd/3 3<<<here >j2
cat <<< "$(head -c 300000 src/text)" >k; mapfile -t m <src/text; printf '%s\\n' "${m[@]}" >l; cmp l src/text
cat src/text > >(gzip -nc >n.gz); wait; sleep .3; zcat n.gz | cmp - src/text; cat src/text 2>o.err >o; cat absent >p 2>&1; cat src/text &>q
exec 5>r 6>&5 5>&-; cat src/random >&6; cat src/text >&6; exec 6>&-; md5sum r; exec 7>s; (cat src/random >&7); (cat src/text >&7) & wait; exec 7>&-; md5sum s
sed -i s/e/EE/ b; sed -n 's/a/b/w t' src/text; sed -i.bak -e 1d b; perl -pi -e 's/E/e/' b; perl -e 'open F,">u";print F "x" x 3000000;seek F,5,0;print F "abc";close F'; md5sum b t u
awk '{print > ("v" NR % 7)}' src/text; awk 'BEGIN{for(i=0;i<200000;i++) print i > "w"; close("w"); while ((getline l < "w") > 0) n++; print n}'; md5sum v? w
find src -type f -name '[rt]*' -exec cp {} . \\; ; find src -type f -print0 | sort -z | xargs -0 -n 2 cat >x; md5sum x random text
printf 'a\\nhello\\n.\\nw y\\nq\\n' | ed -s; printf '1d\\nw\\nq\\n' | ed -s y; diff -u src/text b >z.patch; cp src/text b2; patch -s b2 z.patch; cmp b b2
patch -s -b b2 -R z.patch; cmp b2 src/text; ex -s -c '%s/a/A/g' -c wq b2; md5sum b2; rm -f .*.sw?
zip -q -X a.zip src/random src/text; unzip -q a.zip -d unzipped; zip -q -X -r b.zip src/dir; zip -q -X a.zip src/small; zip -q -d a.zip src/text; unzip -l a.zip | tail -1
openssl enc -aes-128-cbc -K 00 -iv 00 -in src/random -out enc 2>/dev/null; openssl enc -d -aes-128-cbc -K 00 -iv 00 -in enc -out dec 2>/dev/null; cmp dec src/random
flock lock cat src/text >flocked; timeout 5 cat src/random >timed; nohup cat src/random >nohupped 2>/dev/null; setsid -w cat src/text >sidded; md5sum flocked timed nohupped sidded
script -qec 'cat src/small' typed >/dev/null; ls -l typed | wc -l; rm typed; busybox cat src/text >busy 2>/dev/null; logger -s --no-act hello 2>logged; wc -l <logged; rm logged busy
python3 -c 'open("py", "wb").write(open("src/random", "rb").read()); import shutil; shutil.copy("py", "py2"); shutil.copytree("src", "py3", symlinks=True)'; cmp py py2
"""
GROUPS["tar"] = """
tar -cf a.tar -C src .; mkdir x1; tar -xf a.tar -C x1; diff -r --no-dereference src x1
tar -cSf b.tar src; mkdir x2; tar -xSpf b.tar -C x2; cmp x2/src/sparse src/sparse
for f in gnu ustar pax v7; do tar -H $f -cf c.$f.tar src/dir src/random; tar -tf c.$f.tar | wc -l; done
tar -czf d.tgz src; tar -cJf d.txz src/text; tar -cjf d.tbz src/text; tar --zstd -cf d.tzst src; for i in d.*; do tar -tf $i | wc -l; done; gzip -dc d.tgz | tar -tf - | wc -l
tar -cf e.tar src/text; tar -rf e.tar src/random; tar -uf e.tar src/small; tar --delete -f e.tar src/text; tar -Af e.tar a.tar; tar -tf e.tar --ignore-zeros | wc -l
mkdir x3; tar -xf a.tar -C x3; tar -xkf a.tar -C x3; tar -xf a.tar -C x3 --overwrite; tar -xf a.tar -C x3 -U; tar -xf a.tar -C x3 --keep-newer-files; diff -r --no-dereference src x3
tar -xOf a.tar ./random | cmp - src/random; tar -xf a.tar --to-command='cat >/dev/null'; tar -cf - src | (mkdir x4; tar -xf - -C x4); tar -cf - src | cat >f.tar; tar -cWf g.tar src/dir
tar -cf h1.tar -g snapshot --listed-incremental=snap src; cp src/small src/more; tar -cf h2.tar --listed-incremental=snap src; tar -tf h2.tar | grep more; rm src/more snap snapshot 2>/dev/null
tar -cf i.tar --xattrs --acls src/marked; mkdir x5; tar -xf i.tar --xattrs -C x5; getfattr -d x5/src/marked 2>&1; tar -b 1 -cf j.tar src/random; tar -b 128 -cf k.tar src/random; tar -tf j.tar
cp -a src src2; tar -cf l.tar --remove-files src2; ls; tar -xf l.tar --transform s/src2/src3/ --strip-components=0; diff -r --no-dereference src src3
tar -cM -L 1000 -f m1.tar -f m2.tar -f m3.tar -f m4.tar -f m5.tar src/random; mkdir x6; tar -xM -f m1.tar -f m2.tar -f m3.tar -f m4.tar -f m5.tar -C x6; cmp x6/src/random src/random
find src | sort | cpio -o -H newc --quiet >n.cpio; mkdir x7; cd x7; cpio -id --quiet -m <../n.cpio; cd ..; diff -r --no-dereference src x7/src
find src/dir | sort | cpio -o -H crc --quiet -F o.cpio; find src/random | cpio -oA -H crc --quiet -F o.cpio; cpio -it --quiet <o.cpio | wc -l; mkdir x8; cd x8; cpio -idu --sparse --quiet <../n.cpio
find src -depth | sort | cpio -pdm --quiet x9; find src -depth | sort | cpio -pdl --quiet x10; for f in bin odc hpbin ustar tar; do find src/dir | sort | cpio -o -H $f --quiet >p.$f 2>/dev/null; done; md5sum p.*
"""
GROUPS["rsync"] = """
rsync -a src/ r1/; diff -r --no-dereference src r1; rsync -ai src/ r1/
rsync -aHAX src/ r2/; rsync -aS src/ r3/; rsync -a --inplace src/ r4/; rsync -aW src/ r5/; rsync -rlt --preallocate src/ r6/
cp src/text r1/random; rsync -a --no-whole-file src/ r1/; cmp src/random r1/random; rsync -ac src/ r1/; head -c 1000000 src/random >r1/random; rsync -a --append-verify src/ r1/; cmp src/random r1/random
head -c 5000 src/random >r2/random; rsync -a --append src/ r2/; head -c 3000 src/text >r2/random; rsync -a --inplace --no-whole-file src/ r2/; cmp src/random r2/random
rsync -a --delay-updates src/ r7/; rsync -a --partial --partial-dir=.part src/ r8/; mkdir tmp; rsync -a -T $PWD/tmp src/ r9/; rsync -a --fsync src/ r10/
rsync -a --link-dest=../r1 src/ r11/; rsync -a --copy-dest=../r1 src/ r12/; rsync -a --compare-dest=../r1 src/ r13/; find r13 | wc -l
cp src/zero r3/text; rsync -ab --suffix=.old src/ r3/; rsync -a --delete src/dir/ r4/; rsync -a --existing src/ r4/; rsync -a --ignore-existing src/ r5/; rsync -au src/ r5/
rsync -az --no-whole-file src/ r14/; rsync -a --write-batch=batch src/ r15/; rsync -a --read-batch=batch r16/; diff -r --no-dereference src r16; rm batch batch.sh
cp -a src moved; rsync -a --remove-source-files moved/ r17/; find moved -type f; rsync -a --chmod=F600 --size-only src/ r18/; rsync -a --bwlimit=50m --block-size=4096 src/random r19
rsync -a --sparse --inplace src/ r20/; rsync -a --max-size=1m src/ r21/; rsync -a --files-from=<(echo random; echo dir/1) src/ r22/; rsync -aR src/dir r23/; rsync -an src/ r24/; ls
"""
GROUPS["compress"] = """
for i in 1 6 9; do gzip -n -$i -c src/text >g$i.gz; gzip -dc g$i.gz | cmp - src/text; done; cp src/random r; gzip -n r; gzip -l r.gz; gzip -d r.gz; cmp r src/random
cp src/text t; gzip -nk t; gzip -nkf t; gzip -t t.gz; gunzip -c t.gz >t2; cmp t t2; gzip -nS .zz t2; cp src/text t3; gzip -n --rsyncable t3; zcat t3.gz | gzip -n >t4.gz; cat t3.gz t4.gz >t5.gz; gzip -t t5.gz
cp src/text x; xz -k -T2 --block-size=200000 x; xz -dc x.xz | cmp - src/text; xz -l x.xz | tail -1 | cut -c 1-20; xz -f x; xz -d -k x.xz; xz -k --format=lzma x; unlzma -c x.lzma | cmp - x
cp src/sparse s; xz -k -0 s; rm s; xz -dk s.xz; xz -dc --no-sparse s.xz >s2; cmp s s2; cmp s src/sparse; cp src/zero z; xz -k0 z; rm z; xz -d z.xz; cmp z src/zero
cp src/text b; bzip2 -k b; bzip2 -dc b.bz2 | cmp - b; bzip2 -f b; bunzip2 b.bz2; cmp b src/text; bzip2 -1 <src/random >b1.bz2; bzcat b1.bz2 | cmp - src/random
cp src/text d; zstd -q d; zstd -q -T2 -3 d -o d2.zst; zstd -dcq d.zst | cmp - d; zstd -q --rm d2.zst -f -o d3.zst; zstd -q --ultra -20 d -o d4.zst; zstd -dq --sparse d.zst -f -o d5; zstd -q -l d.zst >/dev/null
zstd -q src/sparse -o sp.zst; zstd -dq sp.zst -o sp; cmp sp src/sparse; zstd -dq --no-sparse sp.zst -o sp2; cmp sp sp2; zstd -q --patch-from=src/text src/random -o p.zst; zstd -dq --patch-from=src/text p.zst -o p; cmp p src/random
zstd -q -B100000 --train src/dir/* -o dict 2>/dev/null; mkdir flat; zstd -q -r src/dir --output-dir-flat flat; ls flat | wc -l; lz4 -q -f src/text l.lz4; lz4 -q -d -f l.lz4 l; cmp l src/text; lz4 -q -f -BD -9 src/random l9.lz4; lz4 -dcq l9.lz4 | cmp - src/random
cat src/text | gzip -nc | zstd -qc | xz -c0 | bzip2 -c >four; bzip2 -dc four | xz -dc | zstd -dqc | gzip -dc | cmp - src/text
"""
GROUPS["build"] = """
printf 'int one(int x) { return x + 1; }\\n' >one.c; printf '#include <stdio.h>\\nint one(int);\\nint main(void) { printf("%%d\\\\n", one(41)); }\\n' >main.c; gcc -O1 -c one.c main.c; gcc one.o main.o -o prog; ./prog
gcc -O1 -g one.c main.c -o prog2; ./prog2; gcc -static one.c main.c -o prog3; ./prog3; gcc -shared -fPIC one.c -o libone.so; gcc main.c -L. -lone -Wl,-rpath,$PWD -o prog4; ./prog4
ar rcsD libone.a one.o; ar tv libone.a | wc -l; ranlib -D libone.a; gcc main.c libone.a -o prog5; ./prog5; ar rD libone.a main.o; ar dD libone.a main.o; nm libone.a | grep -c one
strip prog2; ./prog2; objcopy --add-section .extra=src/small prog4; ./prog4; objcopy -O binary prog5 raw; objdump -d prog | wc -l; ld -r -o both.o one.o main.o; gcc both.o -o prog6; ./prog6
gcc -O1 -flto one.c main.c -o prog7; ./prog7; gcc -save-temps=obj -c one.c -o saved.o; gcc -MMD -c main.c; cat main.d; gcc -E main.c -o main.i; gcc -S main.c; as main.s -o main2.o; gcc -fuse-ld=gold one.o main.o -o prog8 2>/dev/null && ./prog8
printf 'all: p\\n%%.o: %%.c\\n\\tgcc -c $< -o $@\\np: one.o main.o\\n\\tgcc $^ -o $@\\n' >Makefile; rm -f *.o; make -j2 -s; ./p; make -s; touch -d @946684900 p; make; ./p; touch main.c; make -s; ./p
printf '#include <string>\\n#include <iostream>\\nint main() { std::string s(5, 65); std::cout << s << "\\\\n"; }\\n' >m.cc; g++ -O1 m.cc -o mm; ./mm
python3 -m py_compile <(echo) 2>/dev/null; echo 'print(6 * 7)' >m.py; python3 -c 'import sys; sys.dont_write_bytecode = False; import m'; python3 -c 'import m'; ls __pycache__ | wc -l; rm -r __pycache__; python3 -m zipapp -h >/dev/null; python3 -m tarfile -c py.tar m.py main.c; python3 -m tarfile -l py.tar
python3 -m zipfile -c py.zip src/random src/text; python3 -m zipfile -t py.zip; python3 -m zipfile -e py.zip out; cmp out/src/random src/random 2>&1 || cmp out/random src/random; rm -r out py.zip
rm -f prog* *.o mm p libone.so raw *.i *.s *.d main2.o saved* libone.a; ls
"""
TABLE = "with recursive n(i) as (select 1 union all select i + 1 from n where i < %d) insert into t select i, printf('%%050d', i * 7919 %% 10007) from n"
GROUPS["sqlite3"] = f"""
sqlite3 a.db "create table t(i integer primary key, s text); {TABLE % 20000}"; sqlite3 a.db "select count(*), sum(i) from t; pragma integrity_check"
sqlite3 a.db "create index x on t(s); delete from t where i % 3 = 0; vacuum; update t set s = s || 'x' where i % 7 = 0; pragma integrity_check; select count(*) from t"
sqlite3 a.db .dump >a.sql; sqlite3 b.db <a.sql; sqlite3 b.db .dump | cmp - a.sql; sqlite3 a.db ".backup c.db"; sqlite3 d.db ".restore c.db"; sqlite3 a.db ".clone e.db" >/dev/null; sqlite3 a.db "vacuum into 'f.db'"; for i in c d e f; do sqlite3 $i.db .dump | cmp - a.sql; done
for j in delete truncate persist memory wal off; do sqlite3 $j.db "pragma journal_mode=$j; create table t(i, s); begin; {TABLE % 3000}; commit; begin; delete from t; rollback; select count(*) from t; pragma integrity_check"; done
for s in off normal full extra; do sqlite3 s$s.db "pragma synchronous=$s; create table t(i, s); {TABLE % 3000}; pragma integrity_check"; done; sqlite3 m.db "pragma mmap_size=100000000; create table t(i, s); {TABLE % 9000}; select count(*) from t; pragma integrity_check"
sqlite3 p.db "pragma page_size=65536; pragma cache_size=5; pragma temp_store=1; create table t(i, s); {TABLE % 20000}; create index x on t(s, i); select count(*) from (select distinct s from t order by s desc)"; sqlite3 p.db "pragma page_size=512; vacuum; pragma integrity_check"
sqlite3 v.db "pragma auto_vacuum=1; create table t(i, s); {TABLE % 5000}; delete from t where i > 100; pragma integrity_check; pragma page_count"; sqlite3 wal.db "pragma wal_checkpoint(truncate)"; (for i in 1 2 3 4; do sqlite3 -cmd '.timeout 20000' n.db "create table if not exists u(i); insert into u values ($i)" & done; wait); sqlite3 n.db "select sum(i) from u"
sqlite3 o.db ".output o.txt" "select 1" ".output" ".once p.txt" "select 2" ".mode csv" ".import '|seq 1 5000' w" "select count(*) from w"; sqlite3 -A -cf q.sqlar src/random src/text 2>/dev/null; sqlite3 -readonly a.db "insert into t values (1, 2)"; sqlite3 file:a.db?mode=ro "select count(*) from t"; cat o.txt p.txt
"""
# cp and install copy in the kernel, where no write is to be captured, if they are not told to.
GROUPS["cp by itself"] = "cp() { command cp --reflink=never $*; }; ".join(["", *GROUPS["cp"].strip().splitlines(True)])
QUICK = "cp by itself", "dd"
NEEDS = "cpio rsync gzip xz zstd bzip2 lz4 zip unzip sqlite3 ed ex patch openssl perl gcc g++ ld".split()


def inputs(top):
    """Files to work on: random bytes, text, zeros, a hole, nothing; links, modes, an attribute."""
    source = random.Random(1)
    os.makedirs(os.path.join(top, "src/dir"))

    def put(name, data, mode=0o644):
        with open(os.path.join(top, "src", name), "wb") as f:
            f.write(data)
        os.chmod(os.path.join(top, "src", name), mode)

    words = [bytes(source.choices(b"abcdefgh e", k=source.randrange(2, 40))) for _ in range(5000)]
    put("random", source.randbytes(3 * 1000 * 1000 + 7), 0o604)
    put("text", b"".join(source.choice(words) + b"\n" for _ in range(60000)), 0o640)
    put("zero", bytes(3 << 20))
    put("small", b"a few bytes\n")
    put("empty", b"")
    put("marked", b"with an attribute\n")
    with contextlib.suppress(OSError):
        os.setxattr(os.path.join(top, "src/marked"), "user.mark", b"of old")
    put("sparse", b"begin" * 1000)
    with open(os.path.join(top, "src/sparse"), "r+b") as f:
        f.seek(5 << 20)
        f.write(b"end" * 1000)
    for i in range(12):
        put(f"dir/{i}", source.randbytes(i * 3000), 0o755 if i % 2 else 0o600)
    os.symlink("random", os.path.join(top, "src/link"))
    os.link(os.path.join(top, "src/text"), os.path.join(top, "src/dir/hard"))
    for at, _, names in os.walk(os.path.join(top, "src"), topdown=False):
        for name in [*names, "."]:
            os.utime(os.path.join(at, name), (OLD, OLD + len(name)), follow_symlinks=False)


def group(commands):
    def once(place):
        subprocess.run(["cp", "-a", os.path.join(trial.TOP, "inputs/src"), place.path], check=True)
        found = {}
        for command in commands:
            out = place.run(["bash", "-c", command], 120)
            found[command] = (out.how(), out.out, out.err)
        return found | place.tree()
    return once


world.tools("bash", "tar", "cmp")
inputs(os.path.join(trial.TOP, "inputs"))
suite = world.Suite("tools")
for name in GROUPS if world.WHOLE else QUICK:
    suite.case(name, group(GROUPS[name].strip().splitlines()))
missing = [name for name in NEEDS if not shutil.which(name)]
suite.end(*(["not there: " + " ".join(missing)] if missing else []))

#!/usr/bin/env bash
# Builds the examples of the SDKs: sdk/build.sh [LANGUAGE]... Modules are in sdk/out/LANGUAGE/EXAMPLE.wasm. A language
# whose files and tools have not changed is not built again. The status 3 says that a tool is missing. test-rust runs the tests of the SDK for Rust.
set -euo pipefail
cd "$(dirname "$0")"

lacks() { # lacks WHAT HOW: say how to install a tool, and end
	echo "sdk: $1 is missing: $2" >&2
	exit 3
}

# ---- Each language has a function that finds its tools and prints their versions, and one that builds.

find_go() {
	command -v go >/dev/null || lacks go 'see https://go.dev/dl'
	go version
}

build_go() { # build_go OUT
	local example
	for example in go/examples/*/; do
		example=$(basename "$example")
		GOFLAGS= GOOS=wasip1 GOARCH=wasm go -C go build -trimpath -buildmode=c-shared -ldflags='-s -w' -o "$1/$example.wasm" "./examples/$example"
	done
}

# rustup's rustc, if it has the target, or else Debian's.
find_rust() {
	local rustc libraries
	for rustc in rustc /usr/bin/rustc; do
		libraries=$("$rustc" --print target-libdir --target wasm32-unknown-unknown 2>/dev/null) || continue
		compgen -G "$libraries/libstd-*" >/dev/null || continue
		cargo=$(dirname "$(command -v "$rustc")")/cargo
		[ -x "$cargo" ] || continue
		export RUSTC=$rustc RUSTDOC=${rustc%c}doc
		[ "$rustc" = rustc ] || command -v lld-14 >/dev/null || lacks lld-14 'run apt-get install lld-14'
		"$rustc" --version
		return
	done
	lacks 'a Rust compiler for wasm32-unknown-unknown' 'run apt-get install cargo libstd-rust-dev-wasm32 lld-14'
}

build_rust() {
	local example
	find_rust >/dev/null
	(cd rust && unset RUSTFLAGS && CARGO_TARGET_DIR=../out/cargo "$cargo" build --quiet --offline --locked --release --workspace --target wasm32-unknown-unknown)
	for example in rust/examples/*/; do
		example=$(basename "$example")
		cp "out/cargo/wasm32-unknown-unknown/release/$example.wasm" "$1/"
	done
}

test_rust() {
	find_rust >/dev/null
	(cd rust && unset RUSTFLAGS && CARGO_TARGET_DIR=../out/cargo "$cargo" test --quiet --offline --locked >&2)
}

find_assemblyscript() {
	command -v node >/dev/null || lacks node 'run apt-get install nodejs'
	command -v npm >/dev/null || lacks npm 'run apt-get install npm'
	node --version
}

build_assemblyscript() {
	local example
	cmp -s assemblyscript/package-lock.json assemblyscript/node_modules/.scriptorium-lock || {
		(cd assemblyscript && npm ci --ignore-scripts --no-audit --no-fund --silent >&2)
		ln -sfn .. assemblyscript/node_modules/scriptorium-sdk # examples import the package, as scripts of others do
		cp assemblyscript/package-lock.json assemblyscript/node_modules/.scriptorium-lock
	}
	for example in assemblyscript/examples/*/; do
		example=$(basename "$example")
		(cd assemblyscript && node_modules/.bin/asc "examples/$example/index.ts" --config asconfig.json --outFile "$1/$example.wasm")
	done
}

find_c() {
	command -v clang-14 >/dev/null || lacks clang-14 'run apt-get install clang-14'
	command -v wasm-ld-14 >/dev/null || lacks wasm-ld-14 'run apt-get install lld-14'
	[ -e /usr/include/wasm32-wasi/stdlib.h ] || lacks 'the C library of WASI' 'run apt-get install wasi-libc'
	compgen -G '/usr/lib/llvm-14/lib/clang/14*/lib/wasi/*' >/dev/null || lacks 'the runtime of clang for wasm32' 'run apt-get install libclang-rt-14-dev-wasm32'
	clang-14 --version
}

build_c() {
	local example
	for example in c/examples/*.c; do
		clang-14 --target=wasm32-wasi -mexec-model=reactor -O2 -flto -Wall -Wextra -Werror -Wl,--strip-all -Ic \
			-o "$1/$(basename "$example" .c).wasm" "$example" c/scriptorium.c
	done
}

inputs() { # the checksum of what a language is built from
	{
		"find_$1"
		find build.sh "$1" -name node_modules -prune -o -type f ! -name '*.md' -print0 | sort -z | xargs -0 sha256sum
	} | sha256sum
}

build() { # build LANGUAGE, one process at a time
	local language=$1 sum tmp
	mkdir -p out
	exec 9>"out/$language.lock"
	flock 9
	sum=$(inputs "$language")
	[ "$(cat "out/$language/inputs" 2>/dev/null)" != "$sum" ] || return 0
	echo "sdk: building the examples in $language" >&2
	tmp=$(mktemp -d "$PWD/out/$language.XXXXXX")
	chmod 755 "$tmp"
	"build_$language" "$tmp" || { rm -rf "$tmp"; return 1; }
	echo "$sum" >"$tmp/inputs"
	rm -rf "out/$language"
	mv "$tmp" "out/$language"
}

[ $# -gt 0 ] || set -- go rust assemblyscript c
for language; do
	case $language in
	go | rust | assemblyscript | c) build "$language" ;;
	test-rust) test_rust ;;
	*)
		echo "sdk: there is no SDK for $language: there are go, rust, assemblyscript and c" >&2
		exit 2
		;;
	esac
done

package hostlib

import (
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

var cryptoFunctions = map[string]vm.LGFunction{
	"equal":  cryptoEqual,
	"hex":    cryptoHex,
	"hmac":   cryptoHMAC,
	"md5":    cryptoDigest("md5"),
	"random": cryptoRandom,
	"sha1":   cryptoDigest("sha1"),
	"sha256": cryptoDigest("sha256"),
	"sha512": cryptoDigest("sha512"),
	"unhex":  cryptoUnhex,
	"uuid":   cryptoUUID,
}

func cryptoDigest(algorithm string) vm.LGFunction {
	return func(l *vm.LState) int {
		text, err := bind.HostOf(l).Digest(algorithm, bind.ArgString(l, 1), bind.OptString(l, 2, "hex"))
		return push(l, vm.LString(text), err, "text", "encoding")
	}
}

func cryptoHMAC(l *vm.LState) int {
	text, err := bind.HostOf(l).HMAC(bind.ArgString(l, 1), bind.ArgString(l, 2), bind.ArgString(l, 3), bind.OptString(l, 4, "hex"))
	return push(l, vm.LString(text), err, "algorithm", "key", "text", "encoding")
}

func cryptoRandom(l *vm.LState) int {
	text, err := bind.HostOf(l).RandomBytes(bind.ArgInt(l, 1), bind.OptString(l, 2, "hex"))
	return push(l, vm.LString(text), err, "n", "encoding")
}

func cryptoUUID(l *vm.LState) int {
	text, err := bind.HostOf(l).UUID(bind.OptInt(l, 1, 4))
	return push(l, vm.LString(text), err, "version")
}

func cryptoEqual(l *vm.LState) int {
	equal, err := bind.HostOf(l).Equal(bind.ArgString(l, 1), bind.ArgString(l, 2))
	return push(l, vm.LBool(equal), err)
}

func cryptoHex(l *vm.LState) int {
	text, err := bind.HostOf(l).Hex(bind.ArgString(l, 1))
	return push(l, values.StringOf(text), err)
}

func cryptoUnhex(l *vm.LState) int {
	raw, problem, err := bind.HostOf(l).Unhex(bind.ArgString(l, 1))
	check(l, err)
	return pushOr(l, values.StringOf(raw), problem)
}

var base64Functions = map[string]vm.LGFunction{
	"decode":     base64Decode(false),
	"decode_url": base64Decode(true),
	"encode":     base64Encode(false),
	"encode_url": base64Encode(true),
}

func base64Encode(forURL bool) vm.LGFunction {
	return func(l *vm.LState) int {
		text, err := bind.HostOf(l).Base64(bind.ArgString(l, 1), forURL)
		return push(l, values.StringOf(text), err)
	}
}

func base64Decode(forURL bool) vm.LGFunction {
	return func(l *vm.LState) int {
		raw, problem, err := bind.HostOf(l).Unbase64(bind.ArgString(l, 1), forURL)
		check(l, err)
		return pushOr(l, values.StringOf(raw), problem)
	}
}

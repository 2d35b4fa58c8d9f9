package hostlib

import (
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

func cryptoFunctions() map[string]vm.LGFunction {
	return map[string]vm.LGFunction{
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
}

func cryptoDigest(algorithm string) vm.LGFunction {
	return func(l *vm.LState) int {
		text, err := bind.HostOf(l).Digest(algorithm, bind.ArgString(l, 1), bind.OptString(l, 2, "hex"))
		check(l, err, "text", "encoding")
		l.Push(vm.LString(text))
		return 1
	}
}

func cryptoHMAC(l *vm.LState) int {
	text, err := bind.HostOf(l).HMAC(bind.ArgString(l, 1), bind.ArgString(l, 2), bind.ArgString(l, 3), bind.OptString(l, 4, "hex"))
	check(l, err, "algorithm", "key", "text", "encoding")
	l.Push(vm.LString(text))
	return 1
}

func cryptoRandom(l *vm.LState) int {
	text, err := bind.HostOf(l).RandomBytes(bind.ArgInt(l, 1), bind.OptString(l, 2, "hex"))
	check(l, err, "n", "encoding")
	l.Push(vm.LString(text))
	return 1
}

func cryptoUUID(l *vm.LState) int {
	text, err := bind.HostOf(l).UUID(bind.OptInt(l, 1, 4))
	check(l, err, "version")
	l.Push(vm.LString(text))
	return 1
}

func cryptoEqual(l *vm.LState) int {
	equal, err := bind.HostOf(l).Equal(bind.ArgString(l, 1), bind.ArgString(l, 2))
	check(l, err)
	l.Push(vm.LBool(equal))
	return 1
}

func cryptoHex(l *vm.LState) int {
	text, err := bind.HostOf(l).Hex(bind.ArgString(l, 1))
	check(l, err)
	l.Push(values.StringOf(text))
	return 1
}

func cryptoUnhex(l *vm.LState) int {
	raw, problem, err := bind.HostOf(l).Unhex(bind.ArgString(l, 1))
	check(l, err)
	return pushOr(l, values.StringOf(raw), problem)
}

func base64Functions() map[string]vm.LGFunction {
	return map[string]vm.LGFunction{
		"decode":     base64Decode(false),
		"decode_url": base64Decode(true),
		"encode":     base64Encode(false),
		"encode_url": base64Encode(true),
	}
}

func base64Encode(forURL bool) vm.LGFunction {
	return func(l *vm.LState) int {
		text, err := bind.HostOf(l).Base64(bind.ArgString(l, 1), forURL)
		check(l, err)
		l.Push(values.StringOf(text))
		return 1
	}
}

func base64Decode(forURL bool) vm.LGFunction {
	return func(l *vm.LState) int {
		raw, problem, err := bind.HostOf(l).Unbase64(bind.ArgString(l, 1), forURL)
		check(l, err)
		return pushOr(l, values.StringOf(raw), problem)
	}
}

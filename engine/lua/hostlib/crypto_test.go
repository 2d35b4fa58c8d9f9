package hostlib_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestCrypto(t *testing.T) {
	luatest.RunCases(t, nil, []luatest.Case{
		{Body: `return crypto.md5("abc")`, Want: `"900150983cd24fb0d6963f7d28e17f72"`},
		{Body: `return crypto.sha1("abc")`, Want: `"a9993e364706816aba3e25717850c26c9cd0d89d"`},
		{Body: `return crypto.sha256("abc")`, Want: `"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"`},
		{Body: `return crypto.sha256("abc", "base64")`, Want: `"ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="`},
		{Body: `return crypto.sha256("abc", "base64url")`, Want: `"ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0"`},
		{Body: `return #crypto.sha256("abc", "raw"), crypto.hex(crypto.sha1("abc", "raw"))`, Want: "32\n\"a9993e364706816aba3e25717850c26c9cd0d89d\""},
		{Body: `return #crypto.sha512("")`, Want: "128"},
		{Body: `return crypto.sha256("abc", "octal")`, Fail: "bad argument #2 to 'crypto.sha256' (want hex, base64, base64url or raw)"},
		{Body: `return crypto.sha256()`, Fail: "string expected, got no value"},
		// RFC 4231, test case 2; RFC 2202, the same.
		{Body: `return crypto.hmac("sha256", "Jefe", "what do ya want for nothing?")`, Want: `"5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"`},
		{Body: `return crypto.hmac("sha1", "Jefe", "what do ya want for nothing?")`, Want: `"effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"`},
		{Body: `return crypto.hmac("md5", "Jefe", "what do ya want for nothing?")`, Want: `"750c783e6ab0b503eaa86e310a5db738"`},
		{Body: `return #crypto.hmac("sha512", "k", "t", "raw")`, Want: "64"},
		{Body: `return crypto.hmac("rot13", "k", "t")`, Fail: "bad argument #1 to 'crypto.hmac' (want sha256, sha512, sha1 or md5)"},
		{Body: `return #crypto.random(16), #crypto.random(16, "raw"), crypto.random(16) ~= crypto.random(16)`, Want: "32\n16\ntrue"},
		{Body: `return #crypto.random(1024, "raw")`, Want: "1024"},
		{Body: `return crypto.random(1025)`, Fail: "want 1 to 1024 bytes"},
		{Body: `return crypto.random(0)`, Fail: "want 1 to 1024 bytes"},
		{Body: `return crypto.random(0/0)`, Fail: "want 1 to 1024 bytes"},
		{Body: `return re.test(crypto.uuid(), "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"), crypto.uuid() ~= crypto.uuid()`, Want: "true\ntrue"},
		{Body: `return crypto.uuid(7):sub(15, 15), crypto.uuid(7) < crypto.uuid(7)`, Want: "\"7\"\ntrue"},
		{Body: `return crypto.uuid(1)`, Fail: "want version 4 or 7"},
		{Body: `return crypto.equal("abc", "abc"), crypto.equal("abc", "abd"), crypto.equal("abc", "ab"), crypto.equal("", "")`, Want: "true\nfalse\nfalse\ntrue"},
		{Body: `return crypto.equal("abc")`, Fail: "bad argument #2 to 'crypto.equal'"},
		{Body: `return crypto.hex("\0\255"), crypto.unhex("00FF") == "\0\255", crypto.unhex("")`, Want: "\"00ff\"\ntrue\n\"\""},
		{Body: `return crypto.unhex("0")`, Want: "null\n\"not valid hexadecimal\""},
		{Body: `return crypto.unhex("zz")`, Want: "null\n\"not valid hexadecimal\""},
		{Body: `return crypto.hex(("x"):rep(200000))`, Fail: "over the limit", Kind: script.Limit},
	})
}

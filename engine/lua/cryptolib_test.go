package lua_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

func TestCrypto(t *testing.T) {
	testAPI(t, nil, []apiCase{
		{body: `return crypto.md5("abc")`, want: `"900150983cd24fb0d6963f7d28e17f72"`},
		{body: `return crypto.sha1("abc")`, want: `"a9993e364706816aba3e25717850c26c9cd0d89d"`},
		{body: `return crypto.sha256("abc")`, want: `"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"`},
		{body: `return crypto.sha256("abc", "base64")`, want: `"ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="`},
		{body: `return crypto.sha256("abc", "base64url")`, want: `"ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0"`},
		{body: `return #crypto.sha256("abc", "raw"), crypto.hex(crypto.sha1("abc", "raw"))`, want: "32\n\"a9993e364706816aba3e25717850c26c9cd0d89d\""},
		{body: `return #crypto.sha512("")`, want: "128"},
		{body: `return crypto.sha256("abc", "octal")`, fail: "bad argument #2 to 'crypto.sha256' (want hex, base64, base64url or raw)"},
		{body: `return crypto.sha256()`, fail: "string expected, got no value"},
		// RFC 4231, test case 2; RFC 2202, the same.
		{body: `return crypto.hmac("sha256", "Jefe", "what do ya want for nothing?")`, want: `"5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"`},
		{body: `return crypto.hmac("sha1", "Jefe", "what do ya want for nothing?")`, want: `"effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"`},
		{body: `return crypto.hmac("md5", "Jefe", "what do ya want for nothing?")`, want: `"750c783e6ab0b503eaa86e310a5db738"`},
		{body: `return #crypto.hmac("sha512", "k", "t", "raw")`, want: "64"},
		{body: `return crypto.hmac("rot13", "k", "t")`, fail: "bad argument #1 to 'crypto.hmac' (want sha256, sha512, sha1 or md5)"},
		{body: `return #crypto.random(16), #crypto.random(16, "raw"), crypto.random(16) ~= crypto.random(16)`, want: "32\n16\ntrue"},
		{body: `return #crypto.random(1024, "raw")`, want: "1024"},
		{body: `return crypto.random(1025)`, fail: "want 1 to 1024 bytes"},
		{body: `return crypto.random(0)`, fail: "want 1 to 1024 bytes"},
		{body: `return crypto.random(0/0)`, fail: "want 1 to 1024 bytes"},
		{body: `return re.test(crypto.uuid(), "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"), crypto.uuid() ~= crypto.uuid()`, want: "true\ntrue"},
		{body: `return crypto.uuid(7):sub(15, 15), crypto.uuid(7) < crypto.uuid(7)`, want: "\"7\"\ntrue"},
		{body: `return crypto.uuid(1)`, fail: "want version 4 or 7"},
		{body: `return crypto.equal("abc", "abc"), crypto.equal("abc", "abd"), crypto.equal("abc", "ab"), crypto.equal("", "")`, want: "true\nfalse\nfalse\ntrue"},
		{body: `return crypto.equal("abc")`, fail: "bad argument #2 to 'crypto.equal'"},
		{body: `return crypto.hex("\0\255"), crypto.unhex("00FF") == "\0\255", crypto.unhex("")`, want: "\"00ff\"\ntrue\n\"\""},
		{body: `return crypto.unhex("0")`, want: "null\n\"not valid hexadecimal\""},
		{body: `return crypto.unhex("zz")`, want: "null\n\"not valid hexadecimal\""},
		{body: `return crypto.hex(("x"):rep(200000))`, fail: "over the limit", kind: script.Limit},
	})
}

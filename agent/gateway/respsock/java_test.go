package respsock_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/respsock"
)

// TestJavaClients sends what Lettuce and Jedis do, as their sources say (RedisHandshake and Connection):
// CI has no Maven repository to run them from. Both go on after an error about a subcommand of CLIENT.
func TestJavaClients(t *testing.T) {
	const hello = "%7\r\n$6\r\nserver\r\n$11\r\nscriptorium\r\n$7\r\nversion\r\n$5\r\n1.2.3\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:1\r\n" +
		"$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
	calls := command("FCALL", "acme/echo", "0", "1") + command("FCALL", "acme/echo", "0", "2")
	info := command("CLIENT", "SETINFO", "lib-name", "a") + command("CLIENT", "SETINFO", "lib-ver", "7.7.0.RELEASE/abc")
	for name, exchanges := range map[string][][2]string{
		"Lettuce": {
			{command("HELLO", "3"), hello},
			{info, "+OK\r\n+OK\r\n"},
			{command("CLIENT", "MAINT_NOTIFICATIONS", "on", "moving-endpoint-type", "external-ip"), "-ERR unknown subcommand or wrong number of arguments for 'MAINT_NOTIFICATIONS'\r\n"},
		},
		"Jedis": {{info, "+OK\r\n+OK\r\n"}},
		"Jedis with RESP3": {
			{command("HELLO", "3"), hello},
			{info, "+OK\r\n+OK\r\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, path := serve(t, respsock.Options{Version: "1.2.3"})
			c := dial(t, path)
			for _, exchange := range append(exchanges,
				[2]string{calls, "$1\r\n1\r\n$1\r\n2\r\n"}, // a pipeline has no MULTI
			) {
				c.send(exchange[0])
				c.expect(exchange[1])
			}
			c.send(command("MULTI") + calls + command("EXEC"))
			c.expectLine("-ERR this socket has no transactions")
			c.expect("$1\r\n1\r\n$1\r\n2\r\n")
			c.expectLine("-EXECABORT this socket has no transactions")
		})
	}
}

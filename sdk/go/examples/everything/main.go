// Command everything calls each function of the SDK, by the path of the request. The tests run it.
package main

import (
	"errors"
	"math"
	"strconv"

	scriptorium "github.com/scriptorium-dev/scriptorium/sdk/go"
)

func init() { scriptorium.Handle(handle) }

func handle(r *scriptorium.Request) (*scriptorium.Decision, error) {
	switch r.Path {
	case "/nothing":
		return nil, nil
	case "/log":
		scriptorium.LogInfo(r.Body)
		scriptorium.LogWarn(r.Body)
		scriptorium.LogError(r.Body)
		return scriptorium.Allow(), nil
	case "/fail":
		scriptorium.Fail(r.Body)
	case "/error":
		return nil, errors.New(r.Body)
	case "/deny":
		return scriptorium.Deny(403, r.Body), nil
	case "/redirect":
		return scriptorium.Redirect("/login").Status(303), nil
	case "/decision":
		return decision(), nil
	}
	return ask(r), nil
}

// ask asks the agent.
func ask(r *scriptorium.Request) *scriptorium.Decision {
	d := scriptorium.Allow()
	switch r.Path {
	case "/config":
		return d.MetadataJSON("config", scriptorium.Config())
	case "/kv":
		content, ok := scriptorium.KVGet(r.Body)
		if !ok {
			return d.Metadata("missing", r.Body)
		}
		return d.Metadata("content", content)
	case "/keys":
		for _, key := range scriptorium.KVKeys(r.Body, r.Query, 2) {
			d.Metadata(key, "there")
		}
		return d
	case "/counter":
		return d.MetadataJSON("counter", number(scriptorium.CounterAdd(r.Body, 2.5)))
	case "/ratelimit":
		wait := scriptorium.RateLimit(r.Body, 1, 10, 20)
		if wait == 0 {
			return d
		}
		return scriptorium.Deny(429, "later").RateLimit(20, 0, int(math.Ceil(wait)))
	}
	return echo(r)
}

// echo returns what the SDK reads from a request.
func echo(r *scriptorium.Request) *scriptorium.Decision {
	d := scriptorium.Allow()
	for _, field := range [][2]string{
		{"method", r.Method},
		{"scheme", r.Scheme},
		{"host", r.Host},
		{"path", r.Path},
		{"query", r.Query},
		{"remote_addr", r.RemoteAddr},
		{"body", r.Body},
		{"tenant", r.Tenant},
		{"header", r.Header("X-Name")},
		{"cookie", r.Cookie("session")},
		{"param", r.QueryParam("q")},
	} {
		d.Metadata(field[0], field[1])
	}
	d.MetadataJSON("values", number(float64(len(r.HeaderValues("x-list")))))
	return d.Metadata("mode", r.JSON.Get("params").Get("mode").TextOr("none"))
}

func decision() *scriptorium.Decision {
	return scriptorium.Allow().Upstream("cart").Path("/v2").Query("a=1").
		SetHeader("x-user", "ann").SetHeader("X-User", `"bob"`).
		AppendHeader("via", "a").AppendHeader("via", "b").RemoveHeader("x-old").
		SetResponseHeader("x-frame-options", "DENY").AppendResponseHeader("link", "<a>").RemoveResponseHeader("server").
		Cookie(scriptorium.Cookie{Name: "session", Value: "42", Path: "/a", MaxAge: new(int), SameSite: "strict", Insecure: true}).
		Vary("accept").RateLimit(10, 9, 1).Metadata("variant", "b\n\x01é")
}

func number(n float64) scriptorium.Value {
	v, _ := scriptorium.Parse(strconv.FormatFloat(n, 'g', -1, 64))
	return v
}

func main() {}

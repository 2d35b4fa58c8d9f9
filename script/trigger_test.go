package script_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

func matching(m script.Match) script.Trigger { return script.Trigger{Event: "pre-route", Match: m} }

func hosts(texts ...string) script.Trigger   { return matching(script.Match{Hosts: texts}) }
func paths(texts ...string) script.Trigger   { return matching(script.Match{PathPrefixes: texts}) }
func methods(texts ...string) script.Trigger { return matching(script.Match{Methods: texts}) }

func header(name, value string) script.Trigger {
	return matching(script.Match{Headers: map[string]string{name: value}})
}

func TestTriggerValidate(t *testing.T) {
	many := make([]string, script.MaxConditions+1)
	for i := range many {
		many[i] = "GET" + strings.Repeat("X", i)
	}
	long := strings.Repeat("a", 1000)
	for _, tt := range []struct {
		trigger script.Trigger
		field   string // "" if it is valid
	}{
		{trigger: script.Trigger{}},
		{trigger: script.Trigger{Event: "pre-route", Priority: -script.MaxPriority}},
		{trigger: matching(script.Match{
			Hosts: []string{"shop.example", "*.shop.example", "a"}, PathPrefixes: []string{"/", "/cart", "/a%2Fb", "/*"}, Methods: many[:script.MaxConditions],
			Headers: map[string]string{"x-beta": script.AnyValue, "x_y": "a b"},
		})},
		{script.Trigger{Priority: 1}, "t.event"},
		{script.Trigger{Match: hosts("a").Match}, "t.event"},
		{script.Trigger{Event: "Pre"}, "t.event"},
		{script.Trigger{Event: "e", Priority: script.MaxPriority + 1}, "t.priority"},
		{hosts("a", "Shop.example"), "t.match.hosts[1]"},
		{hosts("shop.example:80"), "t.match.hosts[0]"},
		{hosts("shop.example."), "t.match.hosts[0]"},
		{hosts("a.*.example"), "t.match.hosts[0]"},
		{hosts("*"), "t.match.hosts[0]"},
		{hosts("*.*.a"), "t.match.hosts[0]"},
		{hosts(""), "t.match.hosts[0]"},
		{hosts(strings.Repeat("a.", 127) + "a"), "t.match.hosts[0]"},
		{hosts("a", "a"), "t.match.hosts[1]"},
		{paths("cart"), "t.match.pathPrefixes[0]"},
		{paths(""), "t.match.pathPrefixes[0]"},
		{paths("/cart/"), "t.match.pathPrefixes[0]"},
		{paths("//"), "t.match.pathPrefixes[0]"},
		{paths("/a//b"), "t.match.pathPrefixes[0]"},
		{paths("/a/../b"), "t.match.pathPrefixes[0]"},
		{paths("/a/."), "t.match.pathPrefixes[0]"},
		{paths("/%61"), "t.match.pathPrefixes[0]"},
		{paths("/%2f"), "t.match.pathPrefixes[0]"},
		{paths("/a?b"), "t.match.pathPrefixes[0]"},
		{paths("/a b"), "t.match.pathPrefixes[0]"},
		{paths("/é"), "t.match.pathPrefixes[0]"},
		{paths("/"+long, "/a"+long, "/b"+long, "/c"+long, "/d"+long), "t.match"},
		{methods("get"), "t.match.methods[0]"},
		{methods("GET "), "t.match.methods[0]"},
		{methods(""), "t.match.methods[0]"},
		{methods(many...), "t.match.methods"},
		{header("X-Beta", "1"), "t.match.headers"},
		{header("", "1"), "t.match.headers"},
		{header("x:y", "1"), "t.match.headers"},
		{header("x-beta", ""), "t.match.headers.x-beta"},
		{header("x-beta", " 1"), "t.match.headers.x-beta"},
		{header("x-beta", "1\n"), "t.match.headers.x-beta"},
	} {
		err := tt.trigger.Validate("t")
		e, _ := errors.AsType[*script.Error](err)
		if tt.field == "" && err != nil || tt.field != "" && (e == nil || e.Kind != script.Invalid || e.Field != tt.field) {
			t.Errorf("%+v: %v, want an error of %q", tt.trigger, err, tt.field)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		trigger            script.Trigger
		method, host, path string
		want               bool
	}{
		{matching(script.Match{}), "GET", "", "*", true},
		{hosts("shop.example"), "GET", "shop.example", "/", true},
		{hosts("shop.example"), "GET", "SHOP.example.:8443", "/", true},
		{hosts("shop.example"), "GET", "www.shop.example", "/", false},
		{hosts("shop.example"), "GET", "", "/", false},
		{hosts("*.shop.example"), "GET", "shop.example", "/", false},
		{hosts("*.shop.example"), "GET", ".shop.example", "/", false},
		{hosts("*.shop.example"), "GET", "a.b.shop.example:80", "/", true},
		{hosts("*.shop.example"), "GET", "ashop.example", "/", false},
		{hosts("a", "b"), "GET", "b", "/", true},
		{hosts("a"), "GET", "[::1]:80", "/", false},
		{hosts("a"), "GET", "[::1]", "/", false},
		{paths("/cart"), "GET", "a", "/cart", true},
		{paths("/cart"), "GET", "a", "/cart/", true},
		{paths("/cart"), "GET", "a", "/cart/7", true},
		{paths("/cart"), "GET", "a", "/carts", false},
		{paths("/cart"), "GET", "a", "/Cart", false},
		{paths("/cart"), "GET", "a", "/cart%2F7", false},
		{paths("/a", "/cart"), "GET", "a", "/cart", true},
		{paths("/"), "GET", "a", "/cart", true},
		{paths("/"), "OPTIONS", "a", "*", false},
		{methods("GET", "HEAD"), "HEAD", "a", "/", true},
		{methods("GET"), "get", "a", "/", false},
		{header("x-beta", "1"), "GET", "a", "/", true},
		{header("x-beta", "2"), "GET", "a", "/", true},
		{header("x-beta", "3"), "GET", "a", "/", false},
		{header("x-beta", script.AnyValue), "GET", "a", "/", true},
		{header("x-gamma", script.AnyValue), "GET", "a", "/", false},
		{matching(script.Match{Methods: []string{"GET"}, Hosts: []string{"b"}}), "GET", "a", "/", false},
	} {
		attributes := script.AttributesOf(tt.method, tt.host, tt.path, func(name string) []string {
			return map[string][]string{"x-beta": {"1", "2"}}[name]
		})
		if got := tt.trigger.Match.Matches(&attributes); got != tt.want {
			t.Errorf("%+v: %v for %s %s%s", tt.trigger.Match, got, tt.method, tt.host, tt.path)
		}
	}
}

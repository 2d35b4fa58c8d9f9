package console

import "net/http"

// cookies are how the console names and sets its own. On the web they have the prefix that keeps other hosts from setting
// them. A console without TLS has cookies that browsers take without it; the port is in their names, since all ports of
// this machine share cookies.
type cookies struct {
	secure bool
	port   string
}

const (
	sessionCookie = "scriptorium"
	loginCookie   = "scriptorium-login"
	failureCookie = "scriptorium-failure"
)

func (c cookies) of(name string) string {
	if c.secure {
		return "__Host-" + name
	}
	return name + "-" + c.port
}

// name returns the name of the session's cookie.
func (c cookies) name() string { return c.of(sessionCookie) }

// session returns the cookie of a session, which pages of others never have the browser send.
func (c cookies) session(value string, seconds int) *http.Cookie {
	return c.make(sessionCookie, value, seconds, http.SameSiteStrictMode)
}

func (c cookies) make(name, value string, seconds int, site http.SameSite) *http.Cookie {
	return &http.Cookie{Name: c.of(name), Value: value, Path: "/", Secure: c.secure, HttpOnly: true, SameSite: site, MaxAge: seconds}
}

// gone returns the cookie that removes one.
func (c cookies) gone(name string, site http.SameSite) *http.Cookie {
	return c.make(name, "", -1, site)
}

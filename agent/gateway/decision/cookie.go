package decision

import (
	"net/http"
	"strings"
)

// cookie is one that the client is to keep. Unless the script says otherwise it is for all paths,
// for HTTPS, out of reach of the page's scripts, and not sent from other sites' forms.
type cookie struct {
	name, value, domain, sameSite string
	path                          *string
	maxAge                        *int // seconds; 0 deletes it
	secure, httpOnly              *bool
}

func (c *cookie) take(name string, value []byte) (err error) {
	switch name {
	case "name":
		c.name, err = readText(name, value)
	case "value":
		c.value, err = readTextual(name, value)
	case "path":
		c.path, err = pointer(readText(name, value))
	case "domain":
		c.domain, err = readText(name, value)
	case "max_age":
		c.maxAge, err = pointer(readInt(name, value))
	case "secure":
		c.secure, err = pointer(readBool(name, value))
	case "http_only":
		c.httpOnly, err = pointer(readBool(name, value))
	case "same_site":
		c.sameSite, err = readText(name, value)
	default:
		err = unknown(name)
	}
	return err
}

// text returns the value of its Set-Cookie header.
func (c cookie) text() (string, error) {
	line := http.Cookie{Name: c.name, Value: c.value, Path: "/", Domain: c.domain, Secure: true, HttpOnly: true}
	if c.path != nil {
		line.Path = *c.path
	}
	if c.secure != nil {
		line.Secure = *c.secure
	}
	if c.httpOnly != nil {
		line.HttpOnly = *c.httpOnly
	}
	if c.maxAge != nil {
		line.MaxAge = *c.maxAge
		if line.MaxAge <= 0 { // net/http writes Max-Age=0 for less than zero alone
			line.MaxAge = -1
		}
	}
	switch strings.ToLower(c.sameSite) {
	case "", "lax":
		line.SameSite = http.SameSiteLaxMode
	case "strict":
		line.SameSite = http.SameSiteStrictMode
	case "none":
		line.SameSite = http.SameSiteNoneMode
	default:
		return "", invalid("cookies.same_site", "is %.20q: want lax, strict or none", c.sameSite)
	}
	if line.SameSite == http.SameSiteNoneMode && !line.Secure {
		return "", invalid("cookies.same_site", "is none, which browsers take with secure = true alone")
	}
	if err := line.Valid(); err != nil {
		return "", invalid("cookies", "the cookie %.80q cannot be: %v", c.name, err)
	}
	return line.String(), nil
}

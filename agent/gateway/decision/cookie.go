package decision

import (
	"net/http"
	"strings"
)

// cookie is one that the client is to keep. Unless the script says otherwise it is for all paths,
// for HTTPS, out of reach of the page's scripts, and not sent from other sites' forms.
type cookie struct {
	Name     string  `json:"name"`
	Value    string  `json:"value"`
	Path     *string `json:"path"`
	Domain   string  `json:"domain"`
	MaxAge   *int    `json:"max_age"` // seconds; 0 deletes it
	Secure   *bool   `json:"secure"`
	HTTPOnly *bool   `json:"http_only"`
	SameSite string  `json:"same_site"`
}

// text returns the value of its Set-Cookie header.
func (c cookie) text() (string, error) {
	line := http.Cookie{Name: c.Name, Value: c.Value, Path: "/", Domain: c.Domain, Secure: true, HttpOnly: true}
	if c.Path != nil {
		line.Path = *c.Path
	}
	if c.Secure != nil {
		line.Secure = *c.Secure
	}
	if c.HTTPOnly != nil {
		line.HttpOnly = *c.HTTPOnly
	}
	if c.MaxAge != nil {
		line.MaxAge = *c.MaxAge
		if line.MaxAge <= 0 { // net/http writes Max-Age=0 for less than zero alone
			line.MaxAge = -1
		}
	}
	switch strings.ToLower(c.SameSite) {
	case "", "lax":
		line.SameSite = http.SameSiteLaxMode
	case "strict":
		line.SameSite = http.SameSiteStrictMode
	case "none":
		line.SameSite = http.SameSiteNoneMode
	default:
		return "", invalid("cookies.same_site", "is %.20q: want lax, strict or none", c.SameSite)
	}
	if line.SameSite == http.SameSiteNoneMode && !line.Secure {
		return "", invalid("cookies.same_site", "is none, which browsers take with secure = true alone")
	}
	if err := line.Valid(); err != nil {
		return "", invalid("cookies", "the cookie %.80q cannot be: %v", c.Name, err)
	}
	return line.String(), nil
}

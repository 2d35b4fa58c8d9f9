package script

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxLabelLen is the longest tenant or script label, in bytes (RFC 1123, 2.1).
const MaxLabelLen = 63

// Name names a script: tenant/name. Both parts are DNS labels.
type Name struct {
	Tenant string
	Script string
}

// String returns "tenant/name".
func (n Name) String() string { return n.Tenant + "/" + n.Script }

// IsZero reports whether n names nothing.
func (n Name) IsZero() bool { return n == Name{} }

// Validate returns an Invalid error that names the offending part, "tenant" or
// "name", unless both are DNS labels.
func (n Name) Validate() error {
	if err := ValidateLabel("tenant", n.Tenant); err != nil {
		return err
	}
	return ValidateLabel("name", n.Script)
}

// ParseName parses "tenant/name".
func ParseName(s string) (Name, error) {
	tenant, name, ok := strings.Cut(s, "/")
	if !ok {
		return Name{}, Errorf(Invalid, "script", "%s is not a script's name: want tenant/name", quote(s))
	}
	n := Name{Tenant: tenant, Script: name}
	if err := n.Validate(); err != nil {
		return Name{}, err
	}
	return n, nil
}

// Ref is a script, or one version of it: "tenant/name" or "tenant/name@7".
type Ref struct {
	Name    Name
	Version uint64 // 0 means the active version
}

// String returns the form that ParseRef reads.
func (r Ref) String() string {
	if r.Version == 0 {
		return r.Name.String()
	}
	return r.Name.String() + "@" + strconv.FormatUint(r.Version, 10)
}

// ParseRef parses "tenant/name" or "tenant/name@7". Its errors are Invalid.
func ParseRef(s string) (Ref, error) {
	base, version, pinned := strings.Cut(s, "@")
	name, err := ParseName(base)
	if err != nil {
		return Ref{}, err
	}
	if !pinned {
		return Ref{Name: name}, nil
	}
	n, err := strconv.ParseUint(version, 10, 63)
	if err != nil || n == 0 || version[0] == '0' || version[0] == '+' {
		return Ref{}, Errorf(Invalid, "version", "%s is not a version: want tenant/name@N with N ≥ 1", quote(s))
	}
	return Ref{Name: name, Version: n}, nil
}

// ValidateLabel returns an Invalid error for field unless s is a DNS label
// (RFC 1123, 2.1): 1 to 63 of a-z, 0-9 and '-', neither first nor last a '-'.
func ValidateLabel(field, s string) error {
	if isLabel(s) {
		return nil
	}
	if s == "" {
		return Errorf(Invalid, field, "must not be empty")
	}
	return Errorf(Invalid, field,
		"%s is not a DNS label: want 1 to %d of a-z, 0-9 and '-', starting and ending with a letter or digit", quote(s), MaxLabelLen)
}

func isLabel(s string) bool {
	if s == "" || len(s) > MaxLabelLen || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// quote quotes what a stranger wrote, shortened, for an error message.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return strconv.Quote(s)
}

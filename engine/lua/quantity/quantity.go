// Package quantity adds amounts of resources as Kubernetes does, exactly, without its libraries.
package quantity

import (
	"errors"
	"math/big"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
)

// Quantity is an amount of a resource of Kubernetes, exactly: amount * 10^exponent.
type Quantity struct {
	amount   big.Int
	exponent int
	family   form
}

// form is how a quantity is written.
type form uint8

const (
	noFamily    form = iota // of a sum of nothing
	decimalSI               // 100m, 2, 3k
	binarySI                // 64Mi
	decimalPlus             // 3e6
)

// suffixes of quantities, by powers of 1000 or 1024.
var (
	decimalSuffixes = map[string]int{"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
	binarySuffixes  = map[string]int{"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
)

const (
	maxQuantityText = 64
	// nano is the smallest exponent: smaller parts are rounded up.
	nano = -9
	// largestSI is the exponent of the largest suffix.
	largestSI = 18
)

var errQuantity = errors.New("is no quantity: want one such as 100m, 2 or 64Mi")

// Parse reads a quantity as Kubernetes does.
func Parse(text string) (*Quantity, error) {
	if len(text) > maxQuantityText {
		return nil, errQuantity
	}
	rest := strings.TrimLeft(text, "+-")
	if len(text)-len(rest) > 1 {
		return nil, errQuantity
	}
	end := 0
	for end < len(rest) && (numeral.IsDigit(rest[end]) || rest[end] == '.') {
		end++
	}
	number, suffix := rest[:end], rest[end:]
	whole, fraction, _ := strings.Cut(number, ".")
	q := &Quantity{exponent: -len(fraction)}
	if _, ok := q.amount.SetString(whole+fraction, 10); !ok || strings.Contains(fraction, ".") {
		return nil, errQuantity
	}
	if text[0] == '-' {
		q.amount.Neg(&q.amount)
	}
	if !q.scale(suffix) {
		return nil, errQuantity
	}
	q.round()
	return q, nil
}

// scale applies a suffix; ok is false if there is no such suffix.
func (q *Quantity) scale(suffix string) (ok bool) {
	if power, ok := binarySuffixes[suffix]; ok {
		q.family = binarySI
		q.amount.Lsh(&q.amount, uint(10*power)) //nolint:gosec // at most 60
		return true
	}
	if exponent, ok := decimalSuffixes[suffix]; ok {
		q.family = decimalSI
		q.exponent += exponent
		return true
	}
	const mostExponent = 100
	if suffix[0] != 'e' && suffix[0] != 'E' {
		return false
	}
	exponent, err := strconv.Atoi(suffix[1:])
	if err != nil || exponent > mostExponent || exponent < -mostExponent {
		return false
	}
	q.family = decimalPlus
	q.exponent += exponent
	return true
}

// round rounds what is smaller than a nano up, away from zero.
func (q *Quantity) round() {
	if q.exponent < nano {
		divisor := power10(nano - q.exponent)
		var rest big.Int
		q.amount.QuoRem(&q.amount, divisor, &rest)
		if rest.Sign() != 0 {
			q.amount.Add(&q.amount, big.NewInt(int64(rest.Sign())))
		}
		q.exponent = nano
	}
}

func power10(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// at returns the amount in units of 10^exponent, which is not larger than that of q.
func (q *Quantity) at(exponent int) *big.Int {
	return new(big.Int).Mul(&q.amount, power10(max(q.exponent-exponent, 0)))
}

// Add adds another quantity. The sum is written as the first one that is not zero.
func (q *Quantity) Add(other *Quantity) {
	if q.amount.Sign() == 0 {
		q.family = other.family
	}
	exponent := min(q.exponent, other.exponent)
	q.amount.Add(q.at(exponent), other.at(exponent))
	q.exponent = exponent
}

// Cmp compares two quantities.
func (q *Quantity) Cmp(other *Quantity) int {
	exponent := min(q.exponent, other.exponent)
	return q.at(exponent).Cmp(other.at(exponent))
}

// String returns the canonical form, as Kubernetes writes it.
func (q *Quantity) String() string {
	if q.amount.Sign() == 0 {
		return "0"
	}
	if q.family == binarySI {
		if text, ok := q.binary(); ok {
			return text
		}
	}
	amount, exponent := new(big.Int).Set(&q.amount), q.exponent
	ten, rest := big.NewInt(10), new(big.Int)
	for {
		quotient, _ := new(big.Int).QuoRem(amount, ten, rest)
		if rest.Sign() != 0 {
			break
		}
		amount, exponent = quotient, exponent+1
	}
	for exponent%3 != 0 || exponent > largestSI && q.family != decimalPlus {
		amount.Mul(amount, ten)
		exponent--
	}
	if q.family == decimalPlus {
		if exponent == 0 {
			return amount.String()
		}
		return amount.String() + "e" + strconv.Itoa(exponent)
	}
	for suffix, e := range decimalSuffixes {
		if e == exponent {
			return amount.String() + suffix
		}
	}
	return amount.String() // impossible: exponents are multiples of 3 from -9 to 18
}

// binary returns the form with a binary suffix; ok is false for small amounts, and those with a fraction.
func (q *Quantity) binary() (text string, ok bool) {
	amount := q.at(0)
	if q.exponent < 0 {
		var rest big.Int
		amount.QuoRem(&q.amount, power10(-q.exponent), &rest)
		if rest.Sign() != 0 {
			return "", false
		}
	}
	if amount.CmpAbs(big.NewInt(1024)) < 0 {
		return "", false
	}
	power := 0
	for power < len(binarySuffixes) && amount.TrailingZeroBits() >= 10 {
		amount.Rsh(amount, 10)
		power++
	}
	for suffix, p := range binarySuffixes {
		if p == power {
			return amount.String() + suffix, true
		}
	}
	return amount.String(), true
}

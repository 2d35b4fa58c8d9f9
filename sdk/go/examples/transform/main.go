// Command transform sums up the items of an order that are wanted at all. loadtest/engines compares it with its twins in
// other languages.
package main

import (
	"strconv"
	"strings"

	scriptorium "github.com/scriptorium-dev/scriptorium/sdk/go"
)

func init() { scriptorium.HandleJSON(sum) }

func sum(argument string) (string, error) {
	order, err := scriptorium.Parse(argument)
	if err != nil {
		return "", err
	}
	var lines []string
	total := 0.0
	for _, item := range order.Get("items").Items() {
		quantity := item.Get("quantity").Number()
		if quantity <= 0 {
			continue
		}
		amount := item.Get("price").Number() * quantity
		total += amount
		lines = append(lines, `{"name":`+scriptorium.Quote(item.Get("name").Text())+`,"amount":`+number(amount)+`}`)
	}
	customer := scriptorium.Quote(order.Get("customer").Text())
	return `{"customer":` + customer + `,"lines":[` + strings.Join(lines, ",") + `],"total":` + number(total) + `}`, nil
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func main() {}

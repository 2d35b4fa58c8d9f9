package scriptctl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// maxExcerpt bounds the line of a source that an error shows, in bytes.
const maxExcerpt = 200

// lineOf returns a line of a text; "" if it has none.
func lineOf(text []byte, line int) string {
	for found := range strings.Lines(string(text)) {
		if line--; line == 0 {
			found = strings.ToValidUTF8(strings.TrimRight(found, "\r\n"), "\uFFFD")
			return found[:min(len(found), maxExcerpt)]
		}
	}
	return ""
}

// excerpt returns the line with its number, and a mark below the column if that is known.
func excerpt(text string, line, column int) string {
	if strings.TrimSpace(text) == "" {
		return ""
	}
	number := fmt.Sprintf("%6d | ", line)
	shown := number + text
	if column > 0 && column <= len(text)+1 {
		before := strings.Map(func(r rune) rune {
			if r == '\t' {
				return '\t'
			}
			return ' '
		}, text[:column-1])
		shown += "\n" + strings.Repeat(" ", len(number)-2) + "| " + before + "^"
	}
	return shown
}

// sourceOf returns the source of a script that failed in the line; nil if that is 0, or if the registry does not hand it
// out.
func (a *app) sourceOf(ctx context.Context, ref script.Ref, line int) []byte {
	if line <= 0 {
		return nil
	}
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := a.connect()
	if err != nil {
		return nil
	}
	edition, err := client.Source(ctx, ref)
	if err != nil {
		return nil
	}
	return edition.Source
}

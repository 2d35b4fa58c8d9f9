package scriptctl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
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

// lineOfFile returns a line of a file; "" if it cannot be read.
func lineOfFile(path string, line int) string {
	if line <= 0 {
		return ""
	}
	data, err := manifest.ReadFile(path)
	if err != nil {
		return ""
	}
	return lineOf(data, line)
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

// sourceLine returns the line of a script's source in which a call failed; "" if the registry does not hand it out.
func (a *app) sourceLine(ctx context.Context, ref script.Ref, line int) string {
	if line <= 0 {
		return ""
	}
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := a.connect()
	if err != nil {
		return ""
	}
	edition, err := client.Source(ctx, ref)
	if err != nil {
		return ""
	}
	return lineOf(edition.Source, line)
}

// Package page reads from the documentation's pages what they have people type, so that
// tests do that, and not something like it.
package page

import (
	"fmt"
	"iter"
	"os"
	"regexp"
	"strings"
)

// Command is one of a page, and what the page shows it to print: nothing where that is
// left out.
type Command struct{ Line, Prints string }

// Headings returns the titles of the page's sections.
func Headings(page string) []string {
	var titles []string
	for _, title := range lines(page) {
		if title.text != "" {
			titles = append(titles, title.text)
		}
	}
	return titles
}

// title is of a section, of level 1 and more; the zero value is for a line that is none.
type title struct {
	level int
	text  string
}

var heading = regexp.MustCompile(`^(#+) (.*)$`)

// lines goes through the page's lines, with the title that each of them is. Lines in fenced
// blocks are none.
func lines(page string) iter.Seq2[string, title] {
	return func(yield func(string, title) bool) {
		fenced := false
		for line := range strings.Lines(page) {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			}
			is := title{}
			if m := heading.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil && !fenced {
				is = title{len(m[1]), m[2]}
			}
			if !yield(line, is) {
				return
			}
		}
	}
}

// ReadSection returns that section of the page in a file.
func ReadSection(file, title string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	section, err := Section(string(text), title)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return section, nil
}

// Section returns what is below a heading, such as "Uninstall", with the sections in it.
func Section(page, title string) (string, error) {
	var section strings.Builder
	level := 0
	for line, is := range lines(page) {
		switch {
		case is.level == 0:
		case level == 0 && is.text == title:
			level = is.level
			continue
		case level > 0 && is.level <= level:
			return section.String(), nil
		}
		if level > 0 {
			section.WriteString(line)
		}
	}
	if level == 0 {
		return "", fmt.Errorf("the page has no section %q", title)
	}
	return section.String(), nil
}

// block is a fenced one, in the text or in an item of a list.
var block = regexp.MustCompile("(?ms)^( *)```(\\w+)\n(.*?)^ *```$")

// Blocks returns the fenced blocks of the language, without their indentation.
func Blocks(text, language string) []string {
	var blocks []string
	for _, m := range block.FindAllStringSubmatch(text, -1) {
		if m[2] == language {
			blocks = append(blocks, strings.ReplaceAll("\n"+m[3], "\n"+m[1], "\n")[1:])
		}
	}
	return blocks
}

// Transcript returns the commands of the blocks of the language console: the lines that
// begin with "$ ", each with the lines that follow it.
func Transcript(text string) []Command {
	var commands []Command
	for line := range strings.Lines(strings.Join(Blocks(text, "console"), "")) {
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case isCommand:
			commands = append(commands, Command{Line: strings.TrimRight(command, "\n")})
		case len(commands) > 0:
			commands[len(commands)-1].Prints += line
		}
	}
	return commands
}

// Indented returns the blocks that four spaces make, without these.
func Indented(text string) []string {
	var blocks []string
	inside := false
	for line := range strings.Lines(block.ReplaceAllString(text, "")) {
		code, is := strings.CutPrefix(line, "    ")
		switch {
		case is && inside:
			blocks[len(blocks)-1] += code
		case is:
			blocks = append(blocks, code)
		}
		inside = is
	}
	return blocks
}

// ruler is the line between the head of a table and its rows.
var ruler = regexp.MustCompile(`^\|[-:| ]+\|$`)

// Rows returns the cells of the rows of all tables, without the heads.
func Rows(text string) [][]string {
	var rows [][]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case ruler.MatchString(line) && len(rows) > 0:
			rows = rows[:len(rows)-1]
		case strings.HasPrefix(line, "|"):
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

// Find returns the block that has the words in it, which has to be one.
func Find(blocks []string, words string) (string, error) {
	var found []string
	for _, b := range blocks {
		if strings.Contains(b, words) {
			found = append(found, b)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%d of %d blocks have %q in them, and one should: is the page written in another way?", len(found), len(blocks), words)
	}
	return found[0], nil
}

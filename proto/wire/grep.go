package wire

import (
	"regexp"
	"regexp/syntax"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of an expression that agents match with the lines of scripts. An expression with more
// instructions takes too long for each line.
const (
	maxGrepBytes        = 1024
	maxGrepInstructions = 1000
)

// CompileGrep compiles the RE2 expression of a RecentLogsQuery. Its error names the field grep.
func CompileGrep(expression string) (*regexp.Regexp, error) {
	if len(expression) > maxGrepBytes {
		return nil, script.Errorf(script.Invalid, "grep", "has %d bytes, at most %d are allowed", len(expression), maxGrepBytes)
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "grep", "is no RE2 expression: %w", err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, script.Errorf(script.Invalid, "grep", "is no RE2 expression: %w", err)
	}
	if n := len(program.Inst); n > maxGrepInstructions {
		return nil, script.Errorf(script.Invalid, "grep", "is too large: it compiles to %d instructions, at most %d are allowed", n, maxGrepInstructions)
	}
	compiled, err := regexp.Compile(expression)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "grep", "is no RE2 expression: %w", err)
	}
	return compiled, nil
}

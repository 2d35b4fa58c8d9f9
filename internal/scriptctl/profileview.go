package scriptctl

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/script"
)

// scriptProfile is a profile of one version in -o json and -o yaml.
type scriptProfile struct {
	Script       string             `json:"script"`
	Version      uint64             `json:"version,omitempty"` // none if it was not called
	Seconds      float64            `json:"seconds"`
	Calls        uint64             `json:"calls"`
	Instructions uint64             `json:"instructions"`
	Missed       uint64             `json:"missedInstructions,omitempty"` // without a line, because of too many samples at a time
	Others       []otherVersionView `json:"otherVersions,omitempty"`
	OtherCalls   uint64             `json:"otherCalls,omitempty"` // of versions above the limit
	Agents       []profiledAgent    `json:"agents"`
	Lines        []profiledLine     `json:"lines"`
	Stacks       []profiledStack    `json:"stacks"`

	names map[int]string // names of functions, by their first line
}

type otherVersionView struct {
	Version      uint64 `json:"version"`
	Calls        uint64 `json:"calls"`
	Instructions uint64 `json:"instructions"`
}

type profiledAgent struct {
	Agent   string  `json:"agent"`
	Seconds float64 `json:"seconds"`
	Calls   uint64  `json:"calls"`
}

// profiledLine is a line of the source. Total includes the script's functions that the line calls. Self does not.
type profiledLine struct {
	Line     int    `json:"line"`
	Function string `json:"function"`
	Self     uint64 `json:"self"`
	Total    uint64 `json:"total"`
	Source   string `json:"source,omitempty"`
}

// profiledStack has the innermost function first.
type profiledStack struct {
	Frames       []profiledFrame `json:"frames"`
	Instructions uint64          `json:"instructions"`
}

type profiledFrame struct {
	Function string `json:"function"`
	Begins   int    `json:"begins,omitempty"` // first line of the function; 0 for builtins and the chunk
	Line     int    `json:"line,omitempty"`
	Builtin  bool   `json:"builtin,omitempty"`
}

// Names of functions without a name.
const (
	chunkFunction = "(chunk)"
	plainFunction = "function"
)

// maxFunctionName bounds a name, in characters.
const maxFunctionName = 60

// newScriptProfile returns the profile of the version with the most instructions.
func newScriptProfile(name script.Name, found *registryclient.ScriptProfile) *scriptProfile {
	p := &scriptProfile{Script: name.String(), Agents: []profiledAgent{}, Lines: []profiledLine{}, Stacks: []profiledStack{}}
	took := time.Duration(0)
	for _, a := range found.Agents {
		p.Agents = append(p.Agents, profiledAgent{Agent: a.Agent, Seconds: a.Took.Seconds(), Calls: a.Calls})
		p.OtherCalls += a.OtherCalls
		took = max(took, a.Took)
	}
	p.Seconds = took.Seconds()
	if len(found.Versions) == 0 {
		return p
	}
	most := slices.MaxFunc(found.Versions, func(a, b registryclient.ProfiledVersion) int {
		return cmp.Or(cmp.Compare(a.Instructions(), b.Instructions()), cmp.Compare(a.Calls, b.Calls))
	})
	for _, v := range found.Versions {
		if v.Version != most.Version {
			p.Others = append(p.Others, otherVersionView{Version: v.Version, Calls: v.Calls, Instructions: v.Instructions()})
		}
	}
	p.Version, p.Calls, p.Instructions, p.Missed = most.Version, most.Calls, most.Instructions(), most.Missed
	for _, s := range most.Stacks {
		stack := profiledStack{Instructions: s.Instructions}
		for _, f := range s.Frames {
			stack.Frames = append(stack.Frames, frameView(f))
		}
		p.Stacks = append(p.Stacks, stack)
	}
	p.addUp()
	return p
}

func frameView(f engine.Frame) profiledFrame {
	switch {
	case f.Builtin != "":
		return profiledFrame{Function: f.Builtin, Builtin: true}
	case f.Function == 0:
		return profiledFrame{Function: chunkFunction, Line: int(f.Line)}
	}
	return profiledFrame{Function: plainFunction, Begins: int(f.Function), Line: int(f.Line)}
}

// addUp adds up the instructions by line. Those of a builtin count for the line that called it.
func (p *scriptProfile) addUp() {
	type place struct {
		line, begins int
		function     string
	}
	lines := map[place]*profiledLine{}
	at := func(f profiledFrame) *profiledLine {
		key := place{f.Line, f.Begins, f.Function}
		if lines[key] == nil {
			lines[key] = &profiledLine{Line: f.Line, Function: f.Function}
		}
		return lines[key]
	}
	for _, s := range p.Stacks {
		self := true
		seen := map[*profiledLine]bool{} // a function that calls itself counts once
		for i, f := range s.Frames {
			if f.Builtin && (i < len(s.Frames)-1 || !self) {
				continue
			}
			l := at(f)
			if self {
				l.Self += s.Instructions
				self = false
			}
			if !seen[l] {
				l.Total += s.Instructions
				seen[l] = true
			}
		}
	}
	p.Lines = p.Lines[:0]
	for key, l := range lines {
		l.Function = functionName(p.names, key.function, key.begins)
		p.Lines = append(p.Lines, *l)
	}
	slices.SortFunc(p.Lines, func(a, b profiledLine) int {
		return cmp.Or(cmp.Compare(b.Self, a.Self), cmp.Compare(b.Total, a.Total), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Function, b.Function))
	})
}

// functionName returns the name of a function by its first line.
func functionName(names map[int]string, function string, begins int) string {
	name, ok := names[begins]
	if !ok || begins == 0 {
		name = function
	}
	if runes := []rune(name); len(runes) > maxFunctionName {
		name = string(runes[:maxFunctionName-1]) + "…"
	}
	return plain(name)
}

// readSource adds the source and the names of functions, if the registry still has the version.
func (p *scriptProfile) readSource(ctx context.Context, a *app, client *registryclient.Client) {
	name, _ := script.ParseName(p.Script)
	edition, err := client.Source(ctx, script.Ref{Name: name, Version: p.Version})
	if err != nil {
		a.notice("the source of %s@%d cannot be shown: %s", p.Script, p.Version, plain(script.AsError(err).Message))
		return
	}
	if edition.Engine == lua.Name {
		p.names = compile.FunctionNames(edition.Source)
	}
	for i := range p.Stacks {
		for j := range p.Stacks[i].Frames {
			f := &p.Stacks[i].Frames[j]
			f.Function = functionName(p.names, f.Function, f.Begins)
		}
	}
	p.addUp()
	source := strings.Split(string(edition.Source), "\n")
	for i := range p.Lines {
		if l := &p.Lines[i]; l.Line > 0 && l.Line <= len(source) {
			l.Source = strings.ToValidUTF8(strings.TrimSpace(source[l.Line-1]), "\uFFFD")
		}
	}
}

// noticeNotCalled prints a notice that the script had no calls.
func (p *scriptProfile) noticeNotCalled(a *app, o *profileOptions) {
	what := p.Script
	if o.version != 0 {
		what += fmt.Sprintf("@%d", o.version)
	}
	names := make([]string, len(p.Agents))
	for i, agent := range p.Agents {
		names[i] = agent.Agent
	}
	a.notice("%s was not called in %s on %s: call it while the profile runs", what, seconds(p.Seconds), agentsNamed(names))
}

// noticeOthers prints notices about calls of other versions.
func (p *scriptProfile) noticeOthers(a *app) {
	for _, v := range p.Others {
		a.notice("%d calls of version %d are not shown: --version %d shows them", v.Calls, v.Version, v.Version)
	}
	if p.OtherCalls > 0 {
		a.notice("%d calls of further versions are not shown: choose one with --version", p.OtherCalls)
	}
}

func agentsNamed(names []string) string {
	if len(names) == 1 {
		return "agent " + plain(names[0])
	}
	return fmt.Sprintf("%d agents", len(names))
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond).String()
}

// Columns of the table.
const (
	sourceColumn = 6
	sourceWidth  = 120 // characters of the whole row
)

// table writes the lines with the most instructions.
func (p *scriptProfile) table(w io.Writer, most int) {
	if p.Calls == 0 {
		return
	}
	names := make([]string, len(p.Agents))
	for i, agent := range p.Agents {
		names[i] = agent.Agent
	}
	fmt.Fprintf(w, "%s@%d: %d calls in %s on %s, about %s instructions\n", p.Script, p.Version, p.Calls, seconds(p.Seconds), agentsNamed(names), short(p.Instructions))
	if len(p.Lines) == 0 {
		return
	}
	rows := [][]string{{"SELF", "", "TOTAL", "", "LINE", "FUNCTION", "SOURCE"}}
	for _, l := range p.Lines[:min(most, len(p.Lines))] {
		line := "-"
		if l.Line > 0 {
			line = strconv.Itoa(l.Line)
		}
		rows = append(rows, []string{short(l.Self), p.percent(l.Self), short(l.Total), p.percent(l.Total), line, plain(l.Function), plain(l.Source)})
	}
	fit(rows, sourceColumn, sourceWidth)
	columns(w, rows)
	if left := len(p.Lines) - most; left > 0 {
		fmt.Fprintf(w, "and %d more lines: --lines %d shows them\n", left, len(p.Lines))
	}
	if p.Missed > 0 {
		fmt.Fprintf(w, "%s of the instructions have no line: too many samples came at a time\n", p.percent(p.Missed))
	}
}

func (p *scriptProfile) percent(n uint64) string {
	return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(p.Instructions))
}

// short returns a number with about three digits: "45.2M".
func short(n uint64) string {
	f := float64(n)
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if f >= unit.of {
			return fmt.Sprintf("%.1f%s", f/unit.of, unit.name)
		}
	}
	return strconv.FormatUint(n, 10)
}

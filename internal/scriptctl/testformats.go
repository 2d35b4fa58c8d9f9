package scriptctl

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// The formats of test, in addition to table, json and yaml.
const (
	formatJUnit = "junit"
	formatTAP   = "tap"
)

func (a *app) printTests(v *testsView) error {
	switch a.output {
	case formatJUnit:
		return v.writeJUnit(a.Out)
	case formatTAP:
		return v.writeTAP(a.Out)
	}
	return a.print(v, func(w io.Writer) {
		fmt.Fprintf(w, "%d passed, %d failed, %d skipped in %.0f ms\n", v.Passed, v.Failed, v.Skipped, v.Seconds*1000)
		if v.Coverage != nil {
			v.Coverage.write(w)
		}
	})
}

// junitSuite is what GitLab, Jenkins and others read.
type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	File    string        `xml:"file,attr"`
	Line    int           `xml:"line,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitMessage `xml:"failure,omitempty"`
	Skipped *junitMessage `xml:"skipped,omitempty"`
	Out     string        `xml:"system-out,omitempty"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func (v *testsView) writeJUnit(w io.Writer) error {
	suite := junitSuite{Name: "scriptctl test", Tests: len(v.Tests), Failures: v.Failed, Skipped: v.Skipped, Time: fmt.Sprintf("%.6f", v.Seconds)}
	for i := range v.Tests {
		t := &v.Tests[i]
		c := junitCase{Class: t.Script, Name: t.Name, File: t.File, Line: t.Line, Time: fmt.Sprintf("%.6f", t.Seconds)}
		m := &junitMessage{Text: strings.Join(t.reasons(), "\n")}
		m.Message, _, _ = strings.Cut(m.Text, "\n")
		switch t.Outcome {
		case testFailed:
			c.Failure = m
		case testSkipped:
			c.Skipped = m
		}
		for _, l := range t.Logs {
			c.Out += l.Level + ": " + l.Message + "\n"
		}
		suite.Cases = append(suite.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(suite); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

type tapBlock struct {
	At      string   `json:"at"`
	Reasons []string `json:"reasons"`
}

// tapEscapes keep a name from being a directive.
var tapEscapes = strings.NewReplacer(`\`, `\\`, "#", `\#`)

// writeTAP writes the Test Anything Protocol, version 13.
func (v *testsView) writeTAP(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "TAP version 13\n1..%d\n", len(v.Tests))
	for i := range v.Tests {
		t := &v.Tests[i]
		ok, directive := "ok", ""
		switch t.Outcome {
		case testFailed:
			ok = "not ok"
		case testSkipped:
			directive = " # SKIP " + plain(t.Message)
		}
		name := tapEscapes.Replace(plain(t.Script + " " + t.Name))
		fmt.Fprintf(&out, "%s %d - %s%s\n", ok, i+1, name, directive)
		if t.Outcome != testFailed {
			continue
		}
		var text strings.Builder
		if err := writeYAML(&text, tapBlock{fmt.Sprintf("%s:%d", t.File, t.Line), t.reasons()}); err != nil {
			return err
		}
		fmt.Fprintf(&out, "  ---\n  %s\n  ...\n", strings.ReplaceAll(strings.TrimSpace(text.String()), "\n", "\n  "))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

package spec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/operator/kinds"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Faults are all that is wrong with an object, in the order of its fields. As an error
// they are of the kind of the first.
type Faults []*script.Error

// Error returns the words of all faults, "; " between them.
func (f Faults) Error() string {
	words := make([]string, len(f))
	for i, fault := range f {
		words[i] = fault.Field + ": " + Words(fault)
		if fault.Field == "" {
			words[i] = Words(fault)
		}
	}
	return strings.Join(words, "; ")
}

// Unwrap returns the faults.
func (f Faults) Unwrap() []error {
	errs := make([]error, len(f))
	for i, fault := range f {
		errs[i] = fault
	}
	return errs
}

func (f Faults) orNil() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Words returns what a fault says beside its field: "line 3, column 7: unexpected
// 'end'", leaving out what is unknown.
func Words(fault *script.Error) string {
	switch {
	case fault.Line > 0 && fault.Column > 0:
		return fmt.Sprintf("line %d, column %d: %s", fault.Line, fault.Column, fault.Message)
	case fault.Line > 0:
		return fmt.Sprintf("line %d: %s", fault.Line, fault.Message)
	}
	return fault.Message
}

// maxMessage bounds what conditions and events say, in bytes. Kubernetes takes 1,024 of
// an event.
const maxMessage = 1000

// Cut returns a message as a condition or an event has it: one that is too long for
// that loses its end.
func Cut(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + "…"
}

// AllFaults returns the faults in err: those of Faults anywhere in it, and the first
// *script.Error of anything else. ok is false if an error among them is no fault.
func AllFaults(err error) (faults Faults, ok bool) {
	if err == nil {
		return nil, true
	}
	if faults, ok := errors.AsType[Faults](err); ok {
		return faults, true
	}
	if e, ok := errors.AsType[*script.Error](err); ok {
		return Faults{e}, true
	}
	return nil, false
}

// Locate returns the registry's answer to a write of w with the field of the object
// that it is about, as Faults: in the words in which the webhook would have refused it.
// An error that is about no field of the object is returned as it is.
func (w *Wanted) Locate(err error) error {
	e, ok := errors.AsType[*script.Error](err)
	if ok && e.Kind == script.Denied && e.Field == "owner" {
		return Faults{w.taken(e)}
	}
	if !ok || fieldOf(e.Field) == "" {
		return err
	}
	return Faults{w.locate(e)}
}

// taken translates the registry's word that the script is another owner's, which speaks
// of scriptctl. Who that is its message alone says, in quotes.
func (w *Wanted) taken(e *script.Error) *script.Error {
	_, said, _ := strings.Cut(e.Message, " belongs to ")
	quoted, _ := strconv.QuotedPrefix(said)
	owner, err := strconv.Unquote(quoted)
	if err != nil {
		owner = "somebody else"
	}
	const advice = ", and owns it: give this one another name, or have the other let go of it"
	located := *e
	located.Field, located.Message = "metadata.name", Rival(owner, w.Name)+advice
	return &located
}

// Rival says that the owner of a script is another than the object that is it too.
func Rival(owner string, name script.Name) string {
	if kind, object, ok := kinds.OfOwner(owner); ok {
		return fmt.Sprintf("the %s %s is the script %s too", kind, object, name)
	}
	return fmt.Sprintf("%s has the script %s too", owner, name)
}

// locate translates the registry's name of a field.
func (w *Wanted) locate(e *script.Error) *script.Error {
	located := *e
	located.Field = fieldOf(e.Field)
	if located.Field != sourceField {
		return &located
	}
	located.Field = w.SourceField
	if e.Line == 0 && e.Kind == script.Script && strings.Contains(e.Message, "entrypoint") {
		located.Field = "spec.entrypoint"
	}
	return &located
}

// fieldOf returns the path of what the registry calls field, or "".
func fieldOf(field string) string {
	switch field {
	case "source":
		return sourceField
	case "entrypoint", "trigger", "config", "signature":
		return "spec." + field
	case "pin", "version":
		return "spec.version"
	case "tenant":
		return "spec.tenantId"
	case "name":
		return "metadata.name"
	case "settings.historyLimit":
		return "spec.revisionHistoryLimit"
	}
	if setting, ok := strings.CutPrefix(field, "settings."); ok {
		return "spec." + setting
	}
	return ""
}

package gate

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/scriptorium-dev/scriptorium/script"
)

// request is what a webhook gets.
type request struct {
	Tenant        string        `json:"tenant"`
	Script        string        `json:"script"`
	Version       uint64        `json:"version"`
	Digest        script.Digest `json:"digest"`
	ActiveVersion uint64        `json:"activeVersion"`
	Step          int           `json:"step"`
	Attempt       int           `json:"attempt"`
}

// call asks the webhook.
func (c *client) call(ctx context.Context, q Question) (Answer, error) {
	body, err := json.Marshal(request{
		Tenant: q.Name.Tenant, Script: q.Name.Script, Version: q.Version, Digest: q.Digest, ActiveVersion: q.Active, Step: q.Step, Attempt: q.Tries,
	})
	if err != nil {
		return Answer{}, err
	}
	status, answer, err := c.post(ctx, c.URL, "application/json", string(body))
	if err != nil {
		return Answer{}, err
	}
	if status != http.StatusOK {
		return Answer{}, badStatus(status)
	}
	return verdict(answer), nil
}

// verdict reads the answer of a webhook. The names of its fields are as they are written: another
// case is another field.
func verdict(answer []byte) Answer {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(answer, &fields); err != nil || fields == nil {
		return fails("its answer is not a JSON object")
	}
	pass, isPass := boolean(fields["pass"])
	abort, isAbort := boolean(fields["abort"])
	var why string
	if text := fields["reason"]; text != nil && json.Unmarshal(text, &why) != nil {
		why = ""
	}
	switch {
	case !isPass || !isAbort:
		return fails("its answer has a pass or an abort that is neither true nor false")
	case pass && abort:
		return fails("it says both that the step passes and that the candidate is to be aborted")
	case abort:
		return aborts(orElse(why, "it aborts the candidate"))
	case pass:
		return passes(orElse(why, "it says that the step passes"))
	case fields["pass"] == nil:
		return fails("its answer has neither pass nor abort")
	}
	return waits(orElse(why, "it says that the step does not pass yet"))
}

// boolean returns false for nothing; ok is false if the text is something else.
func boolean(text json.RawMessage) (is, ok bool) {
	switch string(text) {
	case "true":
		return true, true
	case "false", "":
		return false, true
	}
	return false, false
}

func orElse(text, other string) string {
	if text = printable(text); text == "" {
		return other
	}
	return text
}

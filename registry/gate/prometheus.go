package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"

	"github.com/scriptorium-dev/scriptorium/script"
)

// query asks the Prometheus for the value of the query, as of now.
func (c *client) query(ctx context.Context, q Question) (Answer, error) {
	text, err := script.ExpandQuery("query", q.Gate.Query, script.QueryVariables(q.Name, q.Version, q.Active, q.Step))
	if err != nil {
		return fails(err.Error()), nil
	}
	form := url.Values{"query": {text}, "timeout": {timeout.String()}}
	status, body, err := c.post(ctx, c.URL.JoinPath("api/v1/query"), "application/x-www-form-urlencoded", form.Encode())
	if err != nil {
		return Answer{}, err
	}
	var r result
	err = json.Unmarshal(body, &r)
	switch {
	case err == nil && r.Status == "error" && status >= 400: // of the query, mostly
		return fails("the query fails: " + r.fault()), nil
	case status != http.StatusOK:
		return Answer{}, badStatus(status)
	case err != nil || r.Status != "success":
		return Answer{}, errors.New("its answer is not that of a Prometheus")
	case len(r.Warnings) > 0: // a part of the data is missing, or does not fit
		return fails("the query's result has a warning: " + r.Warnings[0]), nil
	}
	value, err := r.value()
	if err != nil {
		return fails(err.Error()), nil
	}
	said := fmt.Sprintf("the value is %s, want %s", strconv.FormatFloat(value, 'g', -1, 64), q.Gate.Bounds())
	if q.Gate.Within(value) {
		return passes(said), nil
	}
	return waits(said), nil
}

// result is the answer of a Prometheus.
type result struct {
	Status    string
	ErrorType string
	Error     string
	Warnings  []string
	Data      struct {
		ResultType string
		Result     json.RawMessage
	}
}

var errorType = regexp.MustCompile(`^[a-z_]{1,40}$`)

// fault is what a publisher is told of an error: all of what is wrong with the query, but nothing of
// what is wrong behind it.
func (r *result) fault() string {
	switch {
	case !errorType.MatchString(r.ErrorType):
		return "of an unknown reason"
	case r.ErrorType == "bad_data":
		return r.ErrorType + ": " + r.Error
	}
	return r.ErrorType
}

// sample is a pair of a time and a value.
type sample [2]any

// value returns the only one of a scalar, or of a vector. It may be no number: bounds refuse that.
func (r *result) value() (float64, error) {
	var s sample
	switch r.Data.ResultType {
	case "scalar":
		if err := json.Unmarshal(r.Data.Result, &s); err != nil {
			return 0, errors.New("the query's value cannot be read")
		}
	case "vector":
		var vector []struct{ Value *sample }
		if err := json.Unmarshal(r.Data.Result, &vector); err != nil {
			return 0, errors.New("the query's value cannot be read")
		}
		switch {
		case len(vector) == 0:
			return 0, errors.New("the query finds no data")
		case len(vector) > 1:
			return 0, fmt.Errorf("the query finds %d values, want 1: aggregate them, for example with sum()", len(vector))
		case vector[0].Value == nil:
			return 0, errors.New("the query finds a histogram, want a number")
		}
		s = *vector[0].Value
	default:
		return 0, errors.New("the query's value is neither a scalar nor a vector")
	}
	text, ok := s[1].(string)
	value, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil {
		return 0, errors.New("the query's value cannot be read")
	}
	return value, nil
}

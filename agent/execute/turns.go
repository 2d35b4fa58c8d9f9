package execute

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/admission"
)

// turns collects what gates do and did, each looked at once.
type turns struct{ calls, compiles *admission.Gate }

func turnsDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("scriptorium_agent_"+name, help, labels, nil)
}

var (
	callsRunning     = turnsDesc("calls_running", "Calls that are running.")
	callsWaiting     = turnsDesc("calls_waiting", "Calls that wait for their turn.")
	callsPaused      = turnsDesc("calls_paused", "Calls that gave their turn to others and wait to go on.")
	callPauses       = turnsDesc("call_pauses_total", "How often a running call gave its turn to others.")
	runningSeconds   = turnsDesc("running_seconds_total", "Time that calls ran for, all together: the processors that scripts take.")
	callsOverloaded  = turnsDesc("calls_overloaded_total", "Calls that were answered OVERLOADED, by the bound that they met.", "reason")
	compilesWaiting  = turnsDesc("compiles_waiting", "Programs that calls need and that wait to be compiled.")
	compilingSeconds = turnsDesc("compiling_seconds_total", "Time that programs that calls needed were compiled for, all together.")
)

// Describe implements prometheus.Collector.
func (t turns) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		callsRunning, callsWaiting, callsPaused, callPauses, runningSeconds, callsOverloaded, compilesWaiting, compilingSeconds,
	} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (t turns) Collect(metrics chan<- prometheus.Metric) {
	calls, compiles := t.calls.Stats(), t.compiles.Stats()
	tell := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	tell(callsRunning, prometheus.GaugeValue, float64(calls.Running))
	tell(callsWaiting, prometheus.GaugeValue, float64(calls.Waiting))
	tell(callsPaused, prometheus.GaugeValue, float64(calls.Paused))
	tell(callPauses, prometheus.CounterValue, float64(calls.Pauses))
	tell(runningSeconds, prometheus.CounterValue, calls.Used.Seconds())
	tell(compilesWaiting, prometheus.GaugeValue, float64(compiles.Waiting))
	tell(compilingSeconds, prometheus.CounterValue, compiles.Used.Seconds())
	for _, reason := range admission.Reasons() {
		tell(callsOverloaded, prometheus.CounterValue, float64(calls.Overloaded[reason]+compiles.Overloaded[reason]), reason)
	}
}

package rules

import "strconv"

// certificates is how many seconds are left of the certificate of each connection that expires first.
const certificates = `
	min by ($BY, connection, certificate) (
	scriptorium_agent_certificate_expiry_timestamp_seconds
	or scriptorium_registry_certificate_expiry_timestamp_seconds
	or scriptorium_operator_certificate_expiry_timestamp_seconds
	) - time() < `

const day = 24 * 60 * 60

// trust is about certificates, keys and tokens.
func trust() Group {
	return Group{Name: "trust", Alerts: []Alert{
		{
			Name: "ScriptoriumCertificateExpires", For: "10m", Severity: Warning,
			Expr:        certificates + strconv.Itoa(21*day),
			Summary:     "A certificate ({{ $labels.certificate }}) for the connection {{ $labels.connection }} expires in {{ $value | humanizeDuration }}.",
			Description: "It should have been renewed by now.",
		},
		{
			Name: "ScriptoriumCertificateExpiresSoon", For: "1m", Severity: Critical,
			Expr:        certificates + strconv.Itoa(3*day),
			Summary:     "A certificate ({{ $labels.certificate }}) for the connection {{ $labels.connection }} expires in {{ $value | humanizeDuration }}.",
			Description: "Then the connection fails: agents get no changes, or the registry loses etcd or NATS.",
		},
		{
			Name: "ScriptoriumTokenExpires", For: "10m", Severity: Warning,
			Expr:        `min by ($BY) (scriptorium_registry_access_token_expiry_timestamp_seconds > 0) - time() < ` + strconv.Itoa(7*day),
			Summary:     "A bearer token of the access policy expires in {{ $value | humanizeDuration }}.",
			Description: "The registry then refuses its callers. Its log names the subject.",
		},
		{
			Name: "ScriptoriumAccessPolicyUnusable", For: "1m", Severity: Warning,
			Expr: `
				min by ($BY) (scriptorium_registry_access_policy_current
				and (max_over_time(scriptorium_registry_access_policy_current[1d]) == 1)) == 0`,
			Summary:     "The registry cannot use its access policy.",
			Description: "The file changed to one that cannot be read. The policy before stays in force until the registry restarts.",
		},
		{
			Name: "ScriptoriumCallersRefused", For: "10m", Severity: Warning,
			Expr:        `sum by ($BY, reason) (rate(scriptorium_registry_callers_refused_total[5m])) > 0.1`,
			Summary:     "The registry refuses unknown callers: {{ $labels.reason }}.",
			Description: "A certificate or token has expired, a client is misconfigured, or somebody tries to get in.",
		},
		{
			Name: "ScriptoriumSigningKeysDiffer", For: "1h", Severity: Warning,
			Expr:        `max by ($BY) (scriptorium_registry_other_signing_keys) > 0`,
			Summary:     "The replicas of the registry sign with different keys.",
			Description: "Agents that trust one of the keys alone follow only some replicas.",
		},
	}}
}

// Package decision is the contract between gateways and the scripts that decide about their
// requests: Request is what a script gets, and Decision what comes of its result. Decide calls
// the script, and says what holds if the call fails. The adapters of all protocols share it;
// docs/api/request.md has the contract in full.
package decision

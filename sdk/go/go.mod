module github.com/scriptorium-dev/scriptorium/sdk/go

go 1.24.0

module github.com/create-info/persistent-queue/service

go 1.26.0

require (
	go.uber.org/goleak v1.3.0
	golang.org/x/net v0.59.0
)

require (
	github.com/create-info/persistent-queue v0.0.0
	golang.org/x/text v0.42.0 // indirect
)

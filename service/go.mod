module github.com/create-info/persistent-queue/service

go 1.26.0

require (
	github.com/create-info/persistent-queue v0.0.0
	github.com/create-info/persistent-queue/cron v0.0.0
	go.uber.org/goleak v1.3.0
	golang.org/x/crypto v0.57.0
	golang.org/x/net v0.59.0
)

require (
	github.com/jmoiron/sqlx v1.4.0 // indirect
	github.com/netresearch/go-cron v0.9.1 // indirect
	github.com/panjf2000/ants/v2 v2.12.1 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)

module github.com/create-info/persistent-queue/cron

go 1.26.0

require (
	github.com/create-info/persistent-queue v0.0.0
	github.com/netresearch/go-cron v0.9.1
)

require github.com/jmoiron/sqlx v1.4.0 // indirect

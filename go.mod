module github.com/create-info/persistent-queue

go 1.26.0

require (
	github.com/DATA-DOG/go-sqlmock v1.5.2
	github.com/jmoiron/sqlx v1.4.0
	github.com/panjf2000/ants/v2 v2.12.1
	go.uber.org/goleak v1.3.0
	golang.org/x/time v0.16.0
)

require golang.org/x/sync v0.11.0 // indirect

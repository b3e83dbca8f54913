module github.com/create-info/persistent-queue/service

go 1.26.0

require github.com/create-info/persistent-queue v0.0.0

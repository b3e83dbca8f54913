package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/glebarez/sqlite"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/create-info/persistent-queue/schema"
)

// openDB opens the MariaDB or MySQL that the DSN names, or else SQLite's file, in which it makes the tables. Both handles are of the
// same pool, which is the application's: for requests and for handlers.
func openDB(ctx context.Context, dsn, file string) (*gorm.DB, *sql.DB, error) {
	db, sqlDB, err := openPool(dsn, file)
	if err == nil && dsn == "" {
		err = errors.Join(schema.Migrate(ctx, sqlDB), makeTables(db))
	}
	return db, sqlDB, err
}

// openPool opens another pool. The Runner has its own, so handlers that hold all connections of theirs do not hold up the queue.
func openPool(dsn, file string) (*gorm.DB, *sql.DB, error) {
	dialect := mysql.Open(dsn)
	if dsn == "" {
		dialect = sqlite.Open("file:" + file + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	}
	db, err := gorm.Open(dialect, &gorm.Config{Logger: logger.Discard}) // errors are returned, and logged by whoever handles them
	if err != nil {
		return nil, nil, err
	}
	sqlDB, err := db.DB()
	if err != nil {
		return nil, nil, err
	}
	sqlDB.SetMaxIdleConns(16) // by default, a pool keeps two, and opens the others for each statement
	return db, sqlDB, nil
}

// makeTables makes the shop's own tables, as migrations/shop does for a DBA.
func makeTables(db *gorm.DB) error {
	return db.AutoMigrate(&Order{}, &LedgerLine{}, &Account{})
}

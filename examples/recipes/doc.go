// Package recipes has a solution for each of the cases in docs/guide/recipes.md, and a test that moves the clock. The application's
// own SQL is for MySQL, MariaDB and SQLite.
package recipes

// Package recipes has a solution for each of the cases in docs/recipes.md, and a test that moves the clock. The statements of the
// application itself are those of MySQL, MariaDB and SQLite.
package recipes

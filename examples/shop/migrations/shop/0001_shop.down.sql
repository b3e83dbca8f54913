DROP TABLE accounts;

DROP TABLE ledger_lines;

DROP TABLE orders;

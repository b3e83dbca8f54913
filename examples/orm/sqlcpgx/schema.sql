CREATE TABLE IF NOT EXISTS orders (
  id       varchar(26) PRIMARY KEY,
  customer varchar(100) NOT NULL,
  cents    bigint NOT NULL
);

CREATE TABLE orders (
  id       bigint NOT NULL AUTO_INCREMENT,
  customer bigint NOT NULL,
  cents    bigint NOT NULL,
  state    varchar(16) NOT NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE ledger_lines (
  id       bigint NOT NULL AUTO_INCREMENT,
  order_id bigint NOT NULL,
  customer bigint NOT NULL,
  cents    bigint NOT NULL,
  PRIMARY KEY (id),
  KEY idx_ledger_lines_customer (customer)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE accounts (
  customer bigint NOT NULL,
  cents    bigint NOT NULL,
  PRIMARY KEY (customer)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

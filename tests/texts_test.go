package tests

// awkwardPairs are pairs of texts that some collation, or some session, does not tell apart: blanks at the end, case, accents,
// ligatures, width, kana, emoji, what cannot be seen, and what is normalized.
func awkwardPairs() [][2]string {
	return [][2]string{
		{"a", "a "},
		{"blank  ", "blank"},
		{"case", "CASE"},
		{"é", "e"},
		{"é", "e\u0301"},
		{"ß", "ss"},
		{"ø", "o"},
		{"ﬁ", "fi"},
		{"Ａ", "A"},
		{"①", "1"},
		{"ハ", "は"},
		{"ハ", "ﾊ"},
		{"か", "が"},
		{"日次バッチ", "日次パッチ"},
		{"😀", "😁"},
		{"nightly-😀", "nightly-?"},
		{"soft\u00adhyphen", "softhyphen"},
		{"zero\u200bwidth", "zerowidth"},
		{"tab", "tab\t"},
		{"I", "ı"},
		{"σ", "ς"},
		{"100%", "100_"},
		{`back\slash`, `back\\slash`},
		{"1", "01"},
		{"1e1", "10"},
	}
}

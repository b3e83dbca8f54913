package main

import "strings"

// language has the words of the site itself. What the pages say stands in the documents.
type language struct {
	Code, Name       string
	folder, contents string // where its pages are; its table of contents in the repository

	Contents, Search, SearchHint, None, Close, Menu, OnThisPage, Previous, Next, OnGitHub, Moved, Skip, To string
	Figures, FiguresAre, FiguresIntro, AfterHeading, Bound, Faults, Held, Jobs, Lost                       string
	Titles                                                                                                 map[string]string
	Way                                                                                                    way
}

// way is what the animation of a job's way says.
type way struct {
	Title, Yours, A, B, Handler, Frozen, Changed, Play, Pause string
	Steps                                                     []step
}

type step struct{ Name, Says string }

var english = &language{
	Code: "en", Name: "English", folder: "", contents: "docs/README.md",
	Contents: "Documents", Search: "Search", SearchHint: "a word, a setting, an error",
	None: "Nothing found.", Close: "Close", Menu: "Menu", OnThisPage: "On this page", Previous: "Previous", Next: "Next",
	OnGitHub: "This page on GitHub", Moved: "This page has moved", Skip: "To the text", To: "中文",
	Figures: "Figures as plots", FiguresAre: "the measurements, drawn from the files that have them", AfterHeading: "Three figures",
	FiguresIntro: "Each plot is drawn when the site is made, from results in the repository. Under it stand its file, its commit and its date. " +
		"A bar is the median of the rounds, and a thin line goes from the least to the greatest. Client and servers shared one machine.",
	Bound: "bound", Faults: "The fault suite", Held: "lines that held", Jobs: "jobs", Lost: "jobs lost",
	Titles: map[string]string{
		"latency":     "From an INSERT in another process to the job’s start, at % jobs/s",
		"recovery":    "A holder is killed, frozen or stopped: its jobs go on after, at worst",
		"drain":       "Jobs that do nothing: how many a second",
		"allocations": "Allocations for each job, in a drain",
		"burst":       "% jobs fall due at one moment: how late they start",
		"CPU":         "CPU time of the client for 100k jobs, in a drain",
		"steady":      "% workers, jobs of % ms: how much of the ideal",
	},
	Way: way{Title: "The life of a job, in eight steps", Yours: "your transaction", A: "instance A", B: "instance B", Handler: "handler",
		Frozen: "frozen", Changed: "0 rows changed", Play: "Play", Pause: "Pause",
		Steps: []step{
			{"insert", "Your transaction inserts a row. Once it has committed, the job exists."},
			{"mark", "A holds the lease of the job type, and its term is 12. A finds the row and marks it: term 12, first attempt."},
			{"run", "A worker of A calls your handler."},
			{"kill", "In the middle of that, A stops answering. From outside, nobody can tell whether it was killed or frozen."},
			{"takeover", "A gives no sign of life. B takes the lease, with the next term: 13."},
			{"run again", "When A’s time is over, B marks the row with term 13, second attempt, and calls the handler."},
			{"settle", "B writes the outcome into the row: success."},
			{"fence", "A was only frozen, and wakes. Its late write asks for term 12. No row has that term any more, so nothing is overwritten."},
		}},
}

var chinese = &language{
	Code: "zh-CN", Name: "中文", folder: "zh/", contents: "docs/zh/README.md",
	Contents: "文档", Search: "搜索", SearchHint: "词语、配置项、错误信息",
	None: "没有找到。", Close: "关闭", Menu: "目录", OnThisPage: "本页内容", Previous: "上一页", Next: "下一页",
	OnGitHub: "在 GitHub 上查看本页", Moved: "本页已移到", Skip: "跳到正文", To: "English",
	Figures: "测试数据图", FiguresAre: "直接由测试结果文件画出的图", AfterHeading: "三个数字",
	FiguresIntro: "每张图都在生成网站时由仓库里的结果文件画出，图下注明文件、提交和日期。柱长是各轮的中位数，细线从最小的一轮到最大的一轮。客户端和数据库服务器在同一台机器上。",
	Bound:        "上限", Faults: "故障测试", Held: "符合预期的结果", Jobs: "任务", Lost: "丢失的任务",
	Titles: map[string]string{
		"latency":     "另一个进程 INSERT 到任务开始，每秒 % 个任务",
		"recovery":    "持有者被杀、卡住或停止：它的任务最迟多久后继续",
		"drain":       "什么也不做的任务：每秒多少个",
		"allocations": "清空队列时，每个任务的内存分配次数",
		"burst":       "% 个任务同时到期：开始晚了多少",
		"CPU":         "清空队列时，每 100k 个任务的客户端 CPU 时间",
		"steady":      "% 个工作协程，每个任务 % 毫秒：达到理想值的多少",
	},
	Way: way{Title: "一个任务的一生，共八步", Yours: "您的事务", A: "实例 A", B: "实例 B", Handler: "处理函数",
		Frozen: "无响应", Changed: "改动 0 行", Play: "播放", Pause: "暂停",
		Steps: []step{
			{"插入", "您的事务插入一行。提交之后，任务就存在了。"},
			{"标记", "A 持有这种任务类型的租约，任期号是 12。它发现了这一行，写上任期号 12、第一次执行。"},
			{"执行", "A 的一个工作协程调用您的处理函数。"},
			{"崩溃", "执行到一半，A 没有响应了。是进程被杀，还是卡住了，从外面分不出来。"},
			{"接管", "A 不再报告自己还活着。B 接管租约，任期号加一：13。"},
			{"再次执行", "A 的租约到期之后，B 写上任期号 13、第二次执行，再调用处理函数。"},
			{"写回结果", "B 把结果写进这一行：成功。"},
			{"挡住", "A 其实只是卡住了，现在醒了过来。它迟到的写入要找任期号是 12 的行，已经没有这样的行，所以什么也盖不掉。"},
		}},
}

var languages = []*language{english, chinese}

func languageOf(address string) *language {
	if strings.HasPrefix(address, chinese.folder) {
		return chinese
	}
	return english
}

// other is the language that a page offers beside its own.
func (l *language) other() *language {
	if l == english {
		return chinese
	}
	return english
}

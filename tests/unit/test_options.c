// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: cmd/options cmd/options_table cmd/suggest base/size base/duration base/log
 */
#include "cmd/options.h"

#include <errno.h>
#include <fcntl.h>

#include "base/duration.h"
#include "base/mem.h"
#include "cmd/suggest.h"
#include "unit.h"

#define PARSE(options, ...)                                                            \
	({                                                                             \
		static char *const argv_[] = { (char *)"ptbpf", ##__VA_ARGS__, NULL }; \
		options_parse((int)ARRAY_SIZE(argv_) - 1, argv_, options);             \
	})

/* What the parser says on stderr; the next message only. */
static char said[512];
static int err_pipe[2];

static void listen(void)
{
	CHECK(!pipe2(err_pipe, O_NONBLOCK | O_CLOEXEC));
	CHECK(dup2(err_pipe[1], STDERR_FILENO) == STDERR_FILENO);
}

static const char *heard(void)
{
	const ssize_t n = read(err_pipe[0], said, sizeof(said) - 1);

	said[n > 0 ? n : 0] = '\0';
	return said;
}

TEST(a_command_line_of_the_readme)
{
	struct options o;

	CHECK_EQ(PARSE(&o, "--trigger", "sym:f", "--multi-thread", "--", "./server", "-v", "--x"),
		 0);
	CHECK_EQ(o.command, COMMAND_RECORD);
	CHECK_EQ(o.triggers.len, 1);
	CHECK_STR(o.triggers.data[0], "sym:f");
	CHECK(o.multi_thread && !o.follow_forks && o.verbosity == 0);
	CHECK_STR(o.argv[0], "./server");
	CHECK_STR(o.argv[1], "-v");
	CHECK_STR(o.argv[2], "--x");
	CHECK(!o.argv[3]);
	CHECK_EQ(o.max_snapshots, 1);
	options_fini(&o);
}

TEST(magic_trace_habits_work)
{
	struct options o;

	CHECK_EQ(PARSE(&o, "run", "-multi-thread", "-snapshot-size", "1M", "-trigger", ".",
		       "./prog", "--", "-x", "1"),
		 0);
	CHECK(o.multi_thread);
	CHECK_EQ(o.buffer, 1 << 20);
	CHECK_STR(o.argv[0], "./prog");
	CHECK_STR(o.argv[1], "-x");
	CHECK_STR(o.argv[2], "1");
	CHECK(!o.argv[3]);
	options_fini(&o);

	CHECK_EQ(PARSE(&o, "attach", "-pid", "12,34", "-multi-snapshot", "-full-execution"), 0);
	CHECK_EQ(o.pids.len, 2);
	CHECK_EQ(o.pids.data[1], 34);
	CHECK(o.max_snapshots == 0 && o.full_execution);
	options_fini(&o);

	CHECK_EQ(PARSE(&o, "attach", "-pid=7", "-multi-th"), 0); /* an unambiguous beginning */
	CHECK(o.multi_thread);
	options_fini(&o);
}

TEST(every_form_of_an_option)
{
	struct options o;

	CHECK_EQ(PARSE(&o, "-tmain", "-t", "a", "--trigger=b,arg0=1", "-p1", "-p", "2,3", "-qv"),
		 0);
	CHECK_EQ(o.triggers.len, 3);
	CHECK_STR(o.triggers.data[0], "main");
	CHECK_STR(o.triggers.data[2], "b,arg0=1");
	CHECK_EQ(o.pids.len, 3);
	CHECK_EQ(o.pids.data[2], 3);
	CHECK_EQ(o.verbosity, 1);
	options_fini(&o);
}

TEST(decode_filters)
{
	struct options o;

	CHECK_EQ(PARSE(&o, "decode", "--format", "text", "--from", "-50us", "--to=1ms", "--depth",
		       "3", "--min-duration", "1.5us", "--thread", "42", "-o", "-", "snap"),
		 0);
	CHECK(o.has_from && o.has_to);
	CHECK_EQ(o.from_ns, -50000);
	CHECK_EQ(o.to_ns, 1000000);
	CHECK_EQ(o.min_duration_ns, 1500);
	CHECK_EQ(o.depth, 3);
	CHECK_EQ(o.thread, 42);
	CHECK_STR(o.output, "-");
	CHECK_STR(o.input, "snap");
	options_fini(&o);
}

TEST(a_program_without_dashes_and_commands_as_programs)
{
	struct options o;

	CHECK_EQ(PARSE(&o, "./a.out", "decode"), 0);
	CHECK_EQ(o.command, COMMAND_RECORD);
	CHECK_STR(o.argv[1], "decode");
	options_fini(&o);
	CHECK_EQ(PARSE(&o, "--", "decode", "x"), 0); /* a program of that name */
	CHECK_EQ(o.command, COMMAND_RECORD);
	options_fini(&o);
	CHECK_EQ(PARSE(&o, "-q", "doctor", "--json"), 0);
	CHECK_EQ(o.command, COMMAND_DOCTOR);
	CHECK(o.json && o.verbosity == -1);
	options_fini(&o);
	CHECK_EQ(PARSE(&o, "-o", "out", "decode", "snap"), 0);
	CHECK_EQ(o.command, COMMAND_DECODE);
	options_fini(&o);
	CHECK_EQ(PARSE(&o, "record", "--", "run", "--", "x"), 0);
	CHECK_STR(o.argv[1], "--");
	options_fini(&o);
}

TEST(help_and_version)
{
	struct options o;

	CHECK_EQ(PARSE(&o, "--help"), 0);
	CHECK(o.command == COMMAND_HELP && o.help_for == 0);
	CHECK_EQ(PARSE(&o, "--help", "record"), 0);
	CHECK(o.command == COMMAND_HELP && o.help_for == COMMAND_RECORD);
	CHECK_EQ(PARSE(&o, "decode", "-help"), 0);
	CHECK(o.command == COMMAND_HELP && o.help_for == COMMAND_DECODE);
	CHECK_EQ(PARSE(&o, "help", "plan"), 0);
	CHECK(o.command == COMMAND_HELP && o.help_for == COMMAND_PLAN);
	CHECK_EQ(PARSE(&o, "-V"), 0);
	CHECK_EQ(o.command, COMMAND_VERSION);
}

TEST(wrong_usage_is_refused)
{
	struct options o;

#define BAD(...)                                             \
	do {                                                 \
		CHECK_EQ(PARSE(&o, ##__VA_ARGS__), -EINVAL); \
		options_fini(&o);                            \
	} while (0)
	BAD();
	BAD("--");
	BAD("record");
	BAD("attach");
	BAD("decode");
	BAD("decode", "a", "b");
	BAD("doctor", "x");
	BAD("--trigger");
	BAD("--nonsense", "--", "x");
	BAD("--multi-thread=1", "--", "x");
	BAD("-p", "0");
	BAD("-p", "1,");
	BAD("-p", "1,x");
	BAD("-p", "-1");
	BAD("-p", "99999999999");
	BAD("-p", "1", "--", "x");
	BAD("--buffer", "0", "--", "x");
	BAD("--buffer", "-1", "--", "x");
	BAD("--buffer", "abc", "--", "x");
	BAD("--balance", "fair", "--", "x");
	BAD("--source", "none", "--", "x");
	BAD("--soft-step", "fast", "--", "x");
	BAD("--max-snapshots", "0", "--", "x");
	BAD("--depth", "0", "--", "x");
	BAD("--min-duration", "-1us", "--", "x");
	BAD("--from", "5", "--", "x");
	BAD("--from", "5us", "--to", "4us", "--", "x");
	BAD("--symfs", "/x", "--", "x");
	BAD("decode", "--multi-thread", "x");
	BAD("--user", "nobody", "-p", "1");
	BAD("--output=", "--", "x");
	BAD("", "x");
	BAD("-Z", "--", "x");
}

TEST(says_what_was_meant)
{
	struct options o;

	listen();
#define HINT(hint, ...)                                      \
	do {                                                 \
		CHECK_EQ(PARSE(&o, ##__VA_ARGS__), -EINVAL); \
		CHECK(strstr(heard(), hint));                \
		options_fini(&o);                            \
	} while (0)
	HINT("did you mean --trigger?", "--triger", "f", "--", "x");
	HINT("did you mean --trigger?", "-tirgger", "f", "--", "x");
	HINT("did you mean --multi-thread?", "--multithread", "--", "x");
	HINT("did you mean 'ptbpf record'?", "recrod", "x");
	HINT("did you mean 'ptbpf doctor'?", "docter");
	HINT("must be activity or equal", "--balance", "x", "--", "x");
	HINT("must be auto, hw or soft", "--source", "x", "--", "x");
	HINT("not an option of 'ptbpf decode'", "decode", "--buffer", "1M", "x");
	HINT("--buffer -1: not a size", "--buffer", "-1", "--", "x");
}

TEST(suggestions_need_likeness)
{
	struct suggest suggest = { 0 };

	suggest_consider(&suggest, "xyzzy", "record");
	suggest_consider(&suggest, "", "record");
	CHECK(!suggest.best);
	suggest_consider(&suggest, "decdoe", "record");
	suggest_consider(&suggest, "decdoe", "decode");
	CHECK_STR(suggest.best, "decode");
	CHECK_EQ(suggest.distance, 1);
}

TEST(durations)
{
	static const char *const bad[] = { "",     "5",     "us",     "1x", "0x1us",
					   "1 us", "--1us", "1e400s", "nan" };
	char buf[32];
	int64_t ns;

	CHECK_EQ(duration_parse("-50us", &ns), 0);
	CHECK_EQ(ns, -50000);
	CHECK_EQ(duration_parse("1.5ms", &ns), 0);
	CHECK_EQ(ns, 1500000);
	CHECK_EQ(duration_parse("2h", &ns), 0);
	CHECK_EQ(ns, 7200ll * 1000000000);
	CHECK_EQ(duration_parse("0", &ns), 0);
	CHECK_EQ(ns, 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(duration_parse(bad[i], &ns) < 0);
	CHECK_EQ(duration_parse("99999999999h", &ns), -ERANGE);
	CHECK_STR(duration_format(980, buf, sizeof(buf)), "980ns");
	CHECK_STR(duration_format(1500, buf, sizeof(buf)), "1.50us");
	CHECK_STR(duration_format(12340000, buf, sizeof(buf)), "12.3ms");
	CHECK_STR(duration_format(999600, buf, sizeof(buf)), "1.00ms");
	CHECK_STR(duration_format(4210000000ull, buf, sizeof(buf)), "4.21s");
	CHECK_STR(duration_format(90000000000ull, buf, sizeof(buf)), "90.0s");
}

UNIT_MAIN("unit/options")

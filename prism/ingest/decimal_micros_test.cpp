// SPDX-License-Identifier: Apache-2.0
#include "prism/ingest/decimal_micros.hpp"

#include <cmath>
#include <string>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace prism {
namespace {

TEST(NsOfMicros, WhatTracesWrite) {
  EXPECT_EQ(ns_of_micros("1669783687464181"), 1669783687464181000);  // absolute, whole microseconds
  EXPECT_EQ(ns_of_micros("6322354292522.072"), 6322354292522072);
  EXPECT_EQ(ns_of_micros("1712867402348667.123"), 1712867402348667123);  // 19 digits
  EXPECT_EQ(ns_of_micros("0.02"), 20);
  EXPECT_EQ(ns_of_micros("1000.0"), 1'000'000);
  EXPECT_EQ(ns_of_micros("0"), 0);
  EXPECT_EQ(ns_of_micros("-3"), -3000);
  EXPECT_EQ(ns_of_micros("+3"), 3000);
  EXPECT_EQ(ns_of_micros(".5"), 500);
  EXPECT_EQ(ns_of_micros("5."), 5000);
}

TEST(NsOfMicros, MoreThanThreeDecimalsAreRoundedToTheNearest) {
  EXPECT_EQ(ns_of_micros("0.0004"), 0);
  EXPECT_EQ(ns_of_micros("0.0005"), 1);
  EXPECT_EQ(ns_of_micros("0.00049999999999999999999"), 0);
  EXPECT_EQ(ns_of_micros("-0.0005"), -1);
  EXPECT_EQ(ns_of_micros("1712867402348667.12349"), 1712867402348667123);
  EXPECT_EQ(ns_of_micros("1712867402348667.1235"), 1712867402348667124);
}

TEST(NsOfMicros, Exponents) {
  EXPECT_EQ(ns_of_micros("1.5e6"), 1'500'000'000);
  EXPECT_EQ(ns_of_micros("1.669783687464181E+15"), 1669783687464181000);
  EXPECT_EQ(ns_of_micros("25e-3"), 25);
  EXPECT_EQ(ns_of_micros("1e-30"), 0);
  EXPECT_EQ(ns_of_micros("0e300"), 0);
  EXPECT_EQ(ns_of_micros("1e300"), std::nullopt);
}

TEST(NsOfMicros, WhatIsNoTime) {
  for (const char* text : {"", "-", "+", ".", "e5", "1e", "1e+", "1.2.3", "nan", "inf", "0x10", "1 ", " 1",
                           "1,5", "4000000000000001", "99999999999999999999999", "1e99999999999"}) {
    EXPECT_EQ(ns_of_micros(text), std::nullopt) << text;
  }
  EXPECT_EQ(ns_of_micros("4000000000000000"), 4'000'000'000'000'000'000);
  EXPECT_EQ(ns_of_micros("-4000000000000000"), -4'000'000'000'000'000'000);
}

RC_GTEST_PROP(NsOfMicros, ReadsBackEveryNanosecond, ()) {
  const auto ns = *rc::gen::inRange<std::int64_t>(-4'000'000'000'000'000'000, 4'000'000'000'000'000'000);
  const std::int64_t whole = std::abs(ns) / 1000;
  const std::string decimals = std::to_string(1000 + std::abs(ns) % 1000).substr(1);
  RC_ASSERT(ns_of_micros((ns < 0 ? "-" : "") + std::to_string(whole) + "." + decimals) == ns);
}

}  // namespace
}  // namespace prism
